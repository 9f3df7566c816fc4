package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startCloud answers a client of a cloud that answers every request so.
func startCloud(t *testing.T, status int, body any) *Cloud {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	return &Cloud{endpoint: server.URL, token: "canary-token", client: server.Client()}
}

func TestRefusalHidesEveryValueOfTheSecrets(t *testing.T) {
	secrets := map[string]string{"token": "canary-token\n", "user": "canary", "userData": "#!/bin/sh\njoin canary-data\n"}
	words := "refused"
	for _, value := range secrets {
		words += fmt.Sprintf(" <%s>", strings.TrimSpace(value))
	}
	cloud := startCloud(t, 400, map[string]any{"error": map[string]string{"code": "canary-token", "message": words}})
	cloud.hide(secrets)

	err := cloud.call(context.Background(), http.MethodPost, "/v1/vms", nil, nil)

	failure, isFailure := err.(*Failure)
	if !isFailure || strings.Count(failure.Message, "<(hidden)>") != len(secrets) {
		t.Errorf("the failure is %v", err)
	}
	if isFailure && failure.Details.CloudCode != "(hidden)" {
		t.Errorf("the code of the cloud is %s", failure.Details.CloudCode)
	}
}

func TestNamedVMSurvivesWhateverTheCaseOfItsID(t *testing.T) {
	vm := func(id string) Resource {
		return Resource{ID: id, Kind: "vm", State: "running", Tags: map[string]string{}}
	}
	cloud := startCloud(t, 200, Page{Items: []Resource{vm("Vm-Older"), vm("Vm-Named")}})
	request := EnsureVMRequest{ProviderID: "simulated:///here/vm-NAMED", MustExist: true}

	survivor, err := findSurvivor(context.Background(), cloud, Spec{}, request)

	if err != nil || survivor == nil || survivor.ID != "Vm-Named" {
		t.Errorf("the survivor is %v: %v", survivor, err)
	}
}
