package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// simulatedDriver does what the drivers of Gardener do: it finds a VM by its name and the tags of the class, has a new
// token for each create call, and deletes by the provider ID, or by the name where the Machine has none.
type simulatedDriver struct{}

// providerSpec is that of the provider `simulated` of Millwright.
type providerSpec struct {
	Endpoint    string            `json:"endpoint"`
	MachineType string            `json:"machineType"`
	Region      string            `json:"region"`
	Tags        map[string]string `json:"tags"`
}

type node struct {
	Labels map[string]string `json:"labels"`
	Taints []corev1.Taint    `json:"taints"`
}

type vm struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Region string `json:"region"`
	State  string `json:"state"`
}

func (v vm) providerID() string {
	return fmt.Sprintf("simulated:///%s/%s", v.Region, v.ID)
}

// cloud is what a class says of its cloud.
type cloud struct {
	providerSpec
	token string
}

// failures are the codes of MCM for those of the cloud.
var failures = map[string]codes.Code{
	"Unauthorized":         codes.Unauthenticated,
	"Forbidden":            codes.PermissionDenied,
	"InvalidParameter":     codes.InvalidArgument,
	"InsufficientCapacity": codes.ResourceExhausted,
	"QuotaExceeded":        codes.ResourceExhausted,
	"Throttled":            codes.Unavailable,
	"ServiceUnavailable":   codes.Unavailable,
	"NotFound":             codes.NotFound,
}

func cloudOf(class *v1alpha1.MachineClass, secret *corev1.Secret) (*cloud, error) {
	c := &cloud{token: string(secret.Data["token"])}
	if err := json.Unmarshal(class.ProviderSpec.Raw, &c.providerSpec); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return c, nil
}

// call sends a request, and reads its answer into `into` unless that is nil.
func (c *cloud) call(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, bytes.NewReader(data))
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return refusalOf(answer)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

func refusalOf(answer *http.Response) error {
	var refusal struct {
		Error struct{ Code, Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&refusal); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	code, isKnown := failures[refusal.Error.Code]
	if !isKnown {
		code = codes.Unknown
	}
	return status.Error(code, refusal.Error.Message)
}

// list answers with the VMs of the class that are being created or run.
func (c *cloud) list(ctx context.Context) ([]vm, error) {
	query := url.Values{"limit": {"500"}}
	for key, value := range c.Tags {
		query.Add("tag", key+"="+value)
	}
	found := []vm{}
	for {
		var page struct {
			Items    []vm
			NextPage string
		}
		if err := c.call(ctx, http.MethodGet, "/v1/vms?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, each := range page.Items {
			if each.State == "creating" || each.State == "running" {
				found = append(found, each)
			}
		}
		if page.NextPage == "" {
			return found, nil
		}
		query.Set("page", page.NextPage)
	}
}

// find answers with the VM of that name. Its error is NotFound where there is none, and OutOfRange where there are several.
func (c *cloud) find(ctx context.Context, name string) (vm, error) {
	all, err := c.list(ctx)
	if err != nil {
		return vm{}, err
	}
	var found []vm
	for _, each := range all {
		if each.Name == name {
			found = append(found, each)
		}
	}
	switch len(found) {
	case 0:
		return vm{}, status.Error(codes.NotFound, "there is no VM "+name)
	case 1:
		return found[0], nil
	default:
		return vm{}, status.Error(codes.OutOfRange, fmt.Sprintf("there are %d VMs %s", len(found), name))
	}
}

func (*simulatedDriver) CreateMachine(ctx context.Context, request *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	c, err := cloudOf(request.MachineClass, request.Secret)
	if err != nil {
		return nil, err
	}
	body := map[string]any{
		"token":       string(uuid.NewUUID()),
		"name":        request.Machine.Name,
		"region":      c.Region,
		"machineType": c.MachineType,
		"tags":        c.Tags,
		"partTags":    c.Tags,
		"userData":    string(request.Secret.Data["userData"]),
		"node":        node{Labels: map[string]string{}, Taints: []corev1.Taint{}},
	}
	var created vm
	if err := c.call(ctx, http.MethodPost, "/v1/vms", body, &created); err != nil {
		return nil, err
	}
	return &driver.CreateMachineResponse{ProviderID: created.providerID(), NodeName: created.Name}, nil
}

func (*simulatedDriver) InitializeMachine(context.Context, *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	return nil, status.Error(codes.Unimplemented, "VMs of the simulated cloud need no initialization")
}

func (*simulatedDriver) DeleteMachine(ctx context.Context, request *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	c, err := cloudOf(request.MachineClass, request.Secret)
	if err != nil {
		return nil, err
	}
	_, id, isNamed := strings.Cut(strings.TrimPrefix(request.Machine.Spec.ProviderID, "simulated:///"), "/")
	if !isNamed {
		found, err := c.find(ctx, request.Machine.Name)
		if err != nil {
			return nil, err
		}
		id = found.ID
	}
	return &driver.DeleteMachineResponse{}, c.call(ctx, http.MethodDelete, "/v1/vms/"+id, nil, nil)
}

func (*simulatedDriver) GetMachineStatus(ctx context.Context, request *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	c, err := cloudOf(request.MachineClass, request.Secret)
	if err != nil {
		return nil, err
	}
	found, err := c.find(ctx, request.Machine.Name)
	if err != nil {
		return nil, err
	}
	return &driver.GetMachineStatusResponse{ProviderID: found.providerID(), NodeName: found.Name}, nil
}

func (*simulatedDriver) ListMachines(ctx context.Context, request *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	c, err := cloudOf(request.MachineClass, request.Secret)
	if err != nil {
		return nil, err
	}
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	machines := map[string]string{}
	for _, each := range all {
		machines[each.providerID()] = each.Name
	}
	return &driver.ListMachinesResponse{MachineList: machines}, nil
}

func (*simulatedDriver) GetVolumeIDs(context.Context, *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	return &driver.GetVolumeIDsResponse{}, nil
}
