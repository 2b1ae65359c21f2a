package iam

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/cloudformation"
)

// mostWrapped is how many texts may be in each other: a document is quoted in JSON at most twice.
const mostWrapped = 4

// ParseIdentity reads the policy of a user or a role, JSON or YAML: the document itself, what `aws iam
// get-policy-version` and get-role-policy print, or a CloudFormation template, whose IAM policies are
// taken together. An element that IAM does not have, or a statement that lacks one, is an error.
func ParseIdentity(data []byte) (Policy, error) {
	if cloudformation.IsTerraform(data) {
		return Policy{}, errTerraform
	}
	doc, err := cloudformation.Decode(unescape(data))
	if err != nil {
		return Policy{}, fmt.Errorf("it is no policy: %w", err)
	}
	documents, err := unwrap(doc, 0)
	if err != nil {
		return Policy{}, fmt.Errorf("it is no policy: %w", err)
	}
	var all []Policy
	var errs []error
	for _, d := range documents {
		p, err := document(cloudformation.Evaluate(d), true)
		all, errs = append(all, p), append(errs, err)
		for i, s := range p.statements {
			if err := s.checkIdentity(); err != nil {
				errs = append(errs, fmt.Errorf("statement %d: %w", i+1, err))
			}
		}
	}
	p := Join(all...)
	p.unread = managed(doc)
	return p, errors.Join(errs...)
}

// errTerraform reports that a file is one of Terraform.
var errTerraform = errors.New("it is of Terraform, which is not read: take what `aws iam get-role-policy` or get-policy-version prints of the role, or the json of an aws_iam_policy_document")

// managed are the policies that the roles of a template name, and that are not in it.
func managed(doc any) (arns []string) {
	m, _ := doc.(map[string]any)
	template, err := cloudformation.New(m)
	if err != nil {
		return nil
	}
	for _, r := range template.Resources("AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group") {
		for _, of := range cloudformation.List(r.Properties["ManagedPolicyArns"]) {
			if arn, _ := cloudformation.Text(of); len(cloudformation.Symbols(arn)) == 0 || strings.Contains(arn, ":aws:policy/") {
				arns = append(arns, cloudformation.Printable(arn))
			}
		}
	}
	return arns
}

func (s statement) checkIdentity() error {
	var errs []error
	if s.effect != allow && s.effect != deny {
		errs = append(errs, fmt.Errorf("the Effect %q is neither Allow nor Deny", s.effect))
	}
	if s.principal != nil || s.notPrincipal != nil {
		errs = append(errs, errors.New("the policy of a user or role has no Principal: this one is a resource's"))
	}
	if (len(s.action) == 0) == (len(s.notAction) == 0) {
		errs = append(errs, errors.New("requires exactly one of: Action, NotAction"))
	}
	if (len(s.resource) == 0) == (len(s.notResource) == 0) {
		errs = append(errs, errors.New("requires exactly one of: Resource, NotResource"))
	}
	for _, action := range slices.Concat(s.action, s.notAction) {
		if strings.ContainsAny(action, " ,;") && len(cloudformation.Symbols(action)) == 0 {
			errs = append(errs, fmt.Errorf("the action %q is none: write a list with an element for each", action))
		}
	}
	return errors.Join(errs...)
}

// unescape decodes a document as IAM's API encodes it: URL encoding, RFC 3986.
func unescape(data []byte) []byte {
	if text := strings.Trim(string(data), " \t\r\n\""); strings.HasPrefix(text, "%7B") || strings.HasPrefix(text, "%7b") {
		if plain, err := url.PathUnescape(text); err == nil {
			return []byte(plain)
		}
	}
	return data
}

// notDocuments are what `aws iam` prints of a policy, a role or a user without a document.
var notDocuments = []struct{ key, instead string }{
	{"RoleDetailList", "it has the policies of all roles: take what `aws iam get-role-policy` or get-policy-version prints for the handler's"},
	{"Policy", "it describes a policy: take what `aws iam get-policy-version --policy-arn ARN --version-id VERSION` prints"},
	{"Policies", "it lists policies: take what `aws iam get-policy-version --policy-arn ARN --version-id VERSION` prints for each"},
	{"User", "it describes a user: take what `aws iam get-user-policy` or get-policy-version prints for each of its policies"},
	{"Group", "it describes a group: take what `aws iam get-group-policy` or get-policy-version prints for each of its policies"},
	{"Roles", "it lists roles: take what `aws iam get-role-policy` or get-policy-version prints for the handler's"},
	{"EvaluationResults", "it has results of a simulation: take what `aws iam get-role-policy` or get-policy-version prints for the handler's role"},
	{"Attributes", "it has the attributes of a queue: take what `aws iam get-role-policy` or get-policy-version prints for the handler's role"},
	{"terraform_version", errTerraform.Error()},
	{"Role", "it describes a role: take what `aws iam get-role-policy` or get-policy-version prints for each of its policies"},
	{"AttachedPolicies", "it lists policies: take what `aws iam get-policy-version --policy-arn ARN --version-id VERSION` prints for each"},
	{"PolicyNames", "it lists policies: take what `aws iam get-role-policy --role-name ROLE --policy-name NAME` prints for each"},
	{"Versions", "it lists versions of a policy: take what `aws iam get-policy-version --policy-arn ARN --version-id VERSION` prints"},
	{"resource", errTerraform.Error()},
	{"values", errTerraform.Error()},
}

// unwrap finds the documents in what contains them.
func unwrap(doc any, depth int) ([]any, error) {
	switch doc := doc.(type) {
	case string:
		if depth >= mostWrapped {
			return nil, errors.New("it is quoted too often")
		}
		inner, err := cloudformation.DecodeValue(string(unescape([]byte(doc))))
		if err != nil {
			return nil, err
		}
		if _, still := inner.(string); still {
			return nil, errors.New("it is a text")
		}
		return unwrap(inner, depth+1)
	case []any:
		var all []any
		for _, item := range doc {
			found, err := unwrap(item, depth+1)
			if err != nil || depth >= mostWrapped {
				return nil, errors.Join(err, errors.New("it is a list, and not of policies"))
			}
			all = append(all, found...)
		}
		if len(all) == 0 {
			return nil, errors.New("it is an empty list")
		}
		return all, nil
	case map[string]any:
		if _, has := doc["Statement"]; has {
			return []any{doc}, nil
		}
		for _, key := range []string{"PolicyVersion", "PolicyDocument", "Document"} {
			if inner, has := doc[key]; has && depth < mostWrapped {
				return unwrap(inner, depth+1)
			}
		}
		for _, not := range notDocuments {
			if _, has := doc[not.key]; has {
				return nil, errors.New(not.instead)
			}
		}
		if kind, ok := doc["kind"].(string); ok && doc["apiVersion"] != nil {
			return nil, fmt.Errorf("it is a %s of Kubernetes: take the policy in it, from Version to the end of Statement, into a file of its own", kind)
		}
		_, isTemplate := doc["Resources"]
		_, isWrapped := doc["TemplateBody"]
		if isTemplate || isWrapped {
			return ofTemplate(doc)
		}
		if depth == 0 { // document reports what it has instead
			return []any{doc}, nil
		}
		return nil, errors.New("it has no Statement")
	}
	return nil, fmt.Errorf("it is %v", doc)
}

// ofTemplate finds the policies of users, roles and groups in a CloudFormation template.
func ofTemplate(doc map[string]any) ([]any, error) {
	template, err := cloudformation.New(doc)
	if err != nil {
		return nil, err
	}
	var all []any
	add := func(of any) error {
		found, err := unwrap(of, 1)
		all = append(all, found...)
		return err
	}
	for _, r := range template.Resources("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy", "AWS::IAM::UserPolicy", "AWS::IAM::GroupPolicy", "AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group") {
		documents := []any{r.Properties["PolicyDocument"]}
		for _, inline := range cloudformation.List(r.Properties["Policies"]) {
			inline, _ := inline.(map[string]any)
			documents = append(documents, inline["PolicyDocument"])
		}
		for _, d := range slices.DeleteFunc(documents, func(d any) bool { return d == nil }) {
			if err := add(d); err != nil {
				return nil, fmt.Errorf("resource %s: %w", r.Name, err)
			}
		}
	}
	if len(all) == 0 {
		if arns := managed(doc); len(arns) > 0 {
			return nil, fmt.Errorf("it is a CloudFormation template that only names policies: take what `aws iam get-policy-version` prints for each: %s", strings.Join(arns, ", "))
		}
		return nil, errors.New("it is a CloudFormation template without an IAM policy")
	}
	return all, nil
}
