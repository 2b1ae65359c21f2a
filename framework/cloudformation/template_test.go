package cloudformation

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/logic"
)

const parts = `
Parameters:
  Environment: {Type: String}
  Name: {Type: String, Default: shop}
  Zones: {Type: CommaDelimitedList, Default: "a, b"}
  Image: {Type: 'AWS::SSM::Parameter::Value<String>', Default: /path}
Mappings: {Sizes: {prod: {Retention: 600}}}
Conditions:
  IsProd: !Equals [!Ref Environment, prod]
  Always: !Not [!Equals [!Ref Name, other]]
  InChina: !Equals [!Ref AWS::Partition, aws-cn]
Resources:
  Queue: {Type: AWS::SQS::Queue, Properties: {QueueName: !Ref Name}}
  Unnamed: {Type: AWS::SQS::Queue}
  Rule: {Type: AWS::Events::Rule, Properties: {Name: spot, EventBusName: own}}
  Other: {Type: Custom::Thing}
  Role: {Type: AWS::IAM::Role}
`

func TestFunctions(t *testing.T) {
	for expression, want := range map[string]any{
		"!Ref Name":            "shop",
		"!GetAtt Role.Arn":     "arn:<partition>:iam:<region>:<account>:<generated name of Role>",
		"!Ref Environment":     "<parameter Environment>",
		"!Ref Image":           "<parameter Image>",
		"!Ref Zones":           []any{"a", "b"},
		"!Ref AWS::Region":     "<region>",
		"!GetAtt Queue.Arn":    "arn:<partition>:sqs:<region>:<account>:shop",
		"!GetAtt [Queue, Arn]": "arn:<partition>:sqs:<region>:<account>:shop",
		"!GetAtt Unnamed.Arn":  "arn:<partition>:sqs:<region>:<account>:<stack name>-Unnamed-<generated name of Unnamed>",
		"!GetAtt Rule.Arn":     "arn:<partition>:events:<region>:<account>:rule/own/spot",
		"!GetAtt Other.Arn":    "<Arn of Other>",
		"{'Fn::Sub': 'x-${Name}-${Queue.QueueName}-${!Keep}-${AWS::Region}'}": "x-shop-shop-${Keep}-<region>",
		"!Sub ['${A}-${Name}', {A: !Ref AWS::AccountId}]":                     "<account>-shop",
		"!Join [':', [arn, !Ref AWS::Partition, 1, true]]":                    "arn:<partition>:1:true",
		"!Select [1, !Split ['-', a-b-c]]":                                    "b",
		"!Select [9, [a]]":                                                    "<Select>",
		"!If [Always, yes-it-is, no]":                                         "yes-it-is",
		"!If [IsProd, a, b]":                                                  "<condition IsProd>",
		"!If [InChina, a, b]":                                                 "<condition InChina>",
		"{a: !If [Always, !Ref AWS::NoValue, b], c: d}":                       map[string]any{"c": "d"},
		"!ImportValue stack:Arn":                                              "<import stack.Arn>",
		"!FindInMap [Sizes, none, Retention]":                                 "<FindInMap>",
		"!GetAZs ''":                                                          "<GetAZs>",
		"!ToJsonString {a: !Ref Name}":                                        `{"a":"shop"}`,
		"{'Fn::Unknown': 1}":                                                  "<Unknown>",
		"{account: 012345678901, date: 2012-10-17}":                           map[string]any{"account": "012345678901", "date": "2012-10-17"},
	} {
		template, err := Parse([]byte(parts + "  R: {Type: T, Properties: {V: " + expression + "}}\n"))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got := walk(template.Resources("T")[0].Properties["V"], Printable)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", expression, got, want)
		}
	}
}

func TestParametersAndConditions(t *testing.T) {
	const more = "  InProd: {Type: T, Condition: IsProd}\n  NotInChina: {Type: T, Condition: InChina}\n"
	parse := func() *Template {
		template, err := Parse([]byte(parts + more))
		if err != nil {
			t.Fatal(err)
		}
		return template
	}
	template := parse()
	if got := template.Resources("T"); len(got) != 2 || got[0].Condition == "" {
		t.Errorf("conditions that are not decided: %+v", got)
	}
	if got := template.Missing(); !reflect.DeepEqual(got, []string{"Environment", "Image"}) {
		t.Errorf("without a value: %v", got)
	}
	if err := template.Set(map[string]string{"Environment": "prod", "AWS::Partition": "aws", "AWS::AccountId": "111122223333"}); err != nil {
		t.Fatal(err)
	}
	if got := template.Resources("T"); len(got) != 1 || got[0].Name != "InProd" || got[0].Condition != "" {
		t.Errorf("conditions that are decided: %+v", got)
	}
	if got := Printable(template.Attribute("Queue", "Arn")); got != "arn:aws:sqs:<region>:111122223333:shop" {
		t.Errorf("the ARN is %s", got)
	}
	if err := parse().Set(map[string]string{"Environmen": "prod"}); err == nil || !strings.Contains(err.Error(), "no parameter Environmen; its parameters: Environment, Image, Name, Zones") {
		t.Errorf("a name that it does not have: %v", err)
	}
	limited, err := Parse([]byte("Parameters: {E: {Type: String, AllowedValues: [a, b]}}\nResources: {R: {Type: T}}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := limited.Set(map[string]string{"E": "c"}); err == nil || !strings.Contains(err.Error(), "only: a b") {
		t.Errorf("a value that it does not allow: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                "it is empty",
		"Resources: [":    "neither JSON nor YAML",
		`{"Resources": "`: "neither JSON nor YAML",
		`{"Resources": {"A": {"Type": "\ue000"}}}`: "U+E000",
		"- Resources":    "it is not a mapping",
		"Parameters: {}": "it has no Resources",
		"Resources: {}":  "it has no Resources",
		"Resources: {A: {Type: T}, A: {Type: T}}":                   "line 1: A is there twice",
		"Resources: {A: {Type: T}}\n---\nResources: {}":             "more than one document",
		"apiVersion: v1\nkind: Queue\nspec: {}":                     "it is a Queue of Kubernetes",
		"Resources: {'Fn::ForEach::Q': [a, [b], {}]}":               "only CloudFormation expands",
		"Resources: {A: text}":                                      "resource A is not a mapping",
		"a: &a [*a]":                                                "",
		"Resources: {A: {Type: \ue000}}":                            "U+E000",
		"x: " + strings.Repeat("[", 200) + strings.Repeat("]", 200): "nested too deeply",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{
		"resource \"aws_sqs_queue\" \"q\" {\n  name = \"shop\"\n}\n", "module \"karpenter\" {\n  source = \"x\"\n}", "terraform {\n}",
		`{"resource": {"aws_sqs_queue": {}}}`, `{"format_version": "1.2", "terraform_version": "1.9", "planned_values": {}}`,
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrTerraform) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := Parse([]byte(`{"TemplateBody": "Resources: {A: {Type: T}}", "StagesAvailable": ["Original"]}`)); err != nil {
		t.Errorf("what get-template prints: %v", err)
	}
}

func TestMatchesWithSymbols(t *testing.T) {
	account, region := Symbol(Account), Symbol(Region)
	one, other := Symbol(generated+"One"), Symbol(generated+"Other")
	for _, c := range []struct {
		pattern, text string
		want          logic.Truth
	}{
		{"a*c", "abc", logic.Yes},
		{"a?c", "ac", logic.No},
		{"a/*", "a/b/c", logic.Yes},
		{"[a", "[a", logic.Yes},
		{account, account, logic.Yes},
		{"111122223333", account, logic.Maybe},
		{"*", account, logic.Yes},
		{"arn:" + region + ":shop", "arn:" + region + ":shop", logic.Yes},
		{"arn:eu-west-1:shop", "arn:" + region + ":shop", logic.Maybe},
		{"arn:eu-west-1:other", "arn:" + region + ":shop", logic.No},
		{"rule/*", "rule/" + one, logic.Yes},
		{"rule/spot", "rule/" + one, logic.Maybe},
		{"rule/" + other, "rule/" + one, logic.No},
		{"queue/" + one, "rule/" + one, logic.No},
		{"arn:" + region + ":sqs:" + one, "arn:" + region + ":lambda:" + other, logic.No},
		{Symbol("parameter A"), "arn:" + region + ":sqs:" + one, logic.Maybe},
	} {
		if got := Matches(c.pattern, c.text); got != c.want {
			t.Errorf("%s for %s: %d, want %d", Printable(c.pattern), Printable(c.text), got, c.want)
		}
	}
	if Equal("a*", "ab") != logic.No || Equal("a*"+account, "ab1") != logic.No || Equal(account, "1") != logic.Maybe {
		t.Error("a text is no pattern")
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add([]byte(parts))
	f.Add([]byte(parts + "  R: {Type: T, Condition: IsProd, Properties: {A: !Sub ['${A}', {A: !Join ['', [!Ref R, !GetAtt R.A]]}], B: !If [X, !Ref AWS::NoValue, !Select [0, !Ref Zones]]}}\n"))
	f.Add([]byte(`{"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Fn::GetAtt": "Queue.QueueName"}}}}, "Conditions": {"A": {"Condition": "A"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		template, err := Parse(text)
		if err != nil {
			return
		}
		template.Missing()
		for _, r := range template.Resources("AWS::SQS::Queue", "AWS::Events::Rule", "T") {
			Symbols(r.Properties)
			if _, err := JSON(r.Properties); err != nil {
				t.Errorf("resource %s: %v", r.Name, err)
			}
			template.Attribute(r.Name, "Arn")
		}
	})
}
