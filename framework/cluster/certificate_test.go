package cluster

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// The signer of Kubernetes refuses any other subject and usage, and the key must be that of
// the request.
func TestTheRequestForAServingCertificate(t *testing.T) {
	request, keyPEM, err := servingRequest("proxy", net.IPv4(10, 96, 0, 9))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		t.Fatalf("the request is %q", request.Spec.Request)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		t.Fatalf("%v, %v", err, csr.CheckSignature())
	}
	if csr.Subject.CommonName != "system:node:proxy" || !slices.Equal(csr.Subject.Organization, []string{"system:nodes"}) ||
		len(csr.IPAddresses) != 1 || !csr.IPAddresses[0].Equal(net.IPv4(10, 96, 0, 9)) || len(csr.DNSNames)+len(csr.EmailAddresses)+len(csr.URIs) != 0 {
		t.Errorf("it is for %s, %v", csr.Subject, csr.IPAddresses)
	}
	if request.Spec.SignerName != "kubernetes.io/kubelet-serving" || !slices.Contains(request.Spec.Usages, certificatesv1.UsageServerAuth) {
		t.Errorf("it is addressed to %s with usages %v", request.Spec.SignerName, request.Spec.Usages)
	}
	block, _ = pem.Decode(keyPEM)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if pair, ok := key.(*ecdsa.PrivateKey); !ok || !pair.PublicKey.Equal(csr.PublicKey) {
		t.Error("the key is not that of the request")
	}
}
