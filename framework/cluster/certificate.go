package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/wait"
)

// signTimeout bounds the wait for the controller manager to sign a certificate.
const signTimeout = 30 * time.Second

// ServingCertificate returns a new key, and a certificate for an address that every pod
// trusts as it trusts the API server. The cluster's own authority signs it, by the
// CertificateSigningRequest API: the authority's key stays where it is.
func (c *Cluster) ServingCertificate(ctx context.Context, name string, address net.IP) (certPEM, keyPEM []byte, err error) {
	request, keyPEM, err := servingRequest(name, address)
	if err != nil {
		return nil, nil, fmt.Errorf("request a certificate for %s: %w", name, err)
	}
	api := c.Clientset.CertificatesV1().CertificateSigningRequests()
	if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("remove the previous request for a certificate: %w", err)
	}
	csr, err := api.Create(ctx, request, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("request a certificate for %s: %w", name, err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Spotdrill", Message: "for the recording proxy",
	})
	if _, err := api.UpdateApproval(ctx, name, csr, metav1.UpdateOptions{}); err != nil {
		return nil, nil, fmt.Errorf("approve the certificate for %s: %w", name, err)
	}
	err = wait.Until(ctx, signTimeout, "the certificate for "+name, func(ctx context.Context) string {
		csr, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if certPEM = csr.Status.Certificate; len(certPEM) == 0 {
			return fmt.Sprintf("not signed: %+v", csr.Status.Conditions)
		}
		return ""
	})
	if err != nil {
		return nil, nil, err
	}
	if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return nil, nil, fmt.Errorf("remove the request for a certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}

// servingRequest is a request that the signer for kubelets accepts: of the signers that
// Kubernetes itself has, it is the only one for servers. It demands this subject.
func servingRequest(name string, address net.IP) (request *certificatesv1.CertificateSigningRequest, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{address},
	}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the request: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}
