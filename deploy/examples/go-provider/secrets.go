package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Secrets reads Secrets of the control cluster. One request needs no Kubernetes client, which would be the largest part.
type Secrets struct {
	server    string
	tokenFile string
	client    *http.Client
}

// openSecrets takes the account that the environment names, else that of the pod.
func openSecrets() (*Secrets, error) {
	account := "/var/run/secrets/kubernetes.io/serviceaccount/"
	ca, err := os.ReadFile(fromEnvironment("KUBERNETES_CA_FILE", account+"ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("KUBERNETES_CA_FILE has no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 10}
	return &Secrets{
		server:    fromEnvironment("KUBERNETES_SERVER", "https://kubernetes.default.svc"),
		tokenFile: fromEnvironment("KUBERNETES_TOKEN_FILE", account+"token"),
		client:    &http.Client{Transport: transport, Timeout: requestTimeout},
	}, nil
}

const requestTimeout = 15 * time.Second

// read answers the keys of a Secret; none if it does not exist.
func (s *Secrets) read(ctx context.Context, ref SecretRef) (map[string]string, error) {
	token, err := os.ReadFile(s.tokenFile) // anew, because the token of a ServiceAccount expires
	if err != nil {
		return nil, failed("Unavailable", "the token for Kubernetes cannot be read")
	}
	path := "/api/v1/namespaces/" + url.PathEscape(ref.Namespace) + "/secrets/" + url.PathEscape(ref.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server+path, nil)
	if err != nil {
		return nil, failed("InvalidArgument", "KUBERNETES_SERVER is no URL")
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := s.client.Do(request)
	if err != nil {
		return nil, failed("Unavailable", "Kubernetes does not answer")
	}
	defer response.Body.Close()
	var answer struct {
		Data map[string][]byte `json:"data"`
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, nil
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return nil, failed("PermissionDenied", "Secret %s/%s may not be read: give the account of this worker get on Secrets", ref.Namespace, ref.Name)
	case response.StatusCode != http.StatusOK:
		return nil, failed("Unavailable", "Kubernetes answered %d for Secret %s/%s", response.StatusCode, ref.Namespace, ref.Name)
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil {
		return nil, failed("Unavailable", "Kubernetes answered no Secret for %s/%s", ref.Namespace, ref.Name)
	}
	keys := map[string]string{}
	for key, value := range answer.Data {
		keys[key] = string(value)
	}
	return keys, nil
}

// merge answers the keys of several Secrets; those of a later one win.
func (s *Secrets) merge(ctx context.Context, refs []SecretRef) (map[string]string, error) {
	all := map[string]string{}
	for _, ref := range refs {
		keys, err := s.read(ctx, ref)
		if err != nil {
			return nil, err
		}
		for key, value := range keys {
			all[key] = value
		}
	}
	return all, nil
}

func fromEnvironment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
