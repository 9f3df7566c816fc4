package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
)

const (
	// How long the cloud may leave a VM that it has made out of its lists.
	settleTime = 2 * time.Second
	// How long a deletion is waited for in one call, and how often the cloud is asked meanwhile.
	deletionTime  = 20 * time.Second
	deletionPause = 200 * time.Millisecond
)

// Provider has the activities. The order of their steps is the contract; docs/providers.md says why. Each step looks
// before it acts, because every activity may run again after a crash at any line.
type Provider struct {
	secrets *Secrets
	client  *http.Client
}

// open answers the providerSpec of a request, and the cloud with its credentials. Of the providerSpec it needs what a
// deletion needs, so that a class that is broken elsewhere does not prevent one.
func (p *Provider) open(ctx context.Context, scope Scope) (Spec, *Cloud, error) {
	spec, problems := readSpec(scope)
	keys, err := p.secrets.merge(ctx, scope.Credentials)
	if err != nil {
		return spec, nil, err
	}
	token := strings.TrimSpace(keys["token"])
	if token == "" {
		problems = append(problems, "no Secret has the key token: add it to one")
	}
	if len(problems) > 0 {
		return spec, nil, failed("InvalidArgument", "%s", strings.Join(problems, "; "))
	}
	cloud := &Cloud{endpoint: spec.Endpoint, token: token, client: p.client}
	cloud.hide(keys)
	return spec, cloud, nil
}

// readSpec answers the providerSpec, and what is wrong with what every activity needs.
func readSpec(scope Scope) (Spec, []string) {
	var spec Spec
	if err := json.Unmarshal(scope.ProviderSpec, &spec); err != nil {
		return spec, []string{"providerSpec has a field of a wrong type: correct it"}
	}
	problems := []string{} // never nil: the contract has no null for a list
	if endpoint, err := url.Parse(spec.Endpoint); err != nil || endpoint.Host == "" {
		problems = append(problems, fmt.Sprintf("providerSpec.endpoint is %q: give an http or https URL", spec.Endpoint))
	}
	if len(spec.Tags) == 0 {
		problems = append(problems, "providerSpec.tags is empty: give at least one tag, by which VMs are found again")
	}
	return spec, problems
}

func machineTypeProblem(spec Spec) string {
	if slices.Contains([]string{"small", "medium", "large"}, spec.MachineType) {
		return ""
	}
	return fmt.Sprintf("providerSpec.machineType is %q: use small, medium or large", spec.MachineType)
}

func (p *Provider) EnsureVM(ctx context.Context, request EnsureVMRequest) (VM, error) {
	if err := useDefaults(&request); err != nil {
		return VM{}, err
	}
	spec, cloud, err := p.open(ctx, request.Scope)
	if err != nil {
		return VM{}, err
	}
	vm, err := findSurvivor(ctx, cloud, spec, request)
	if err == nil && vm == nil && (request.OutcomeUnknown || activity.GetInfo(ctx).Attempt > 1) {
		// What an earlier call or attempt has made is listed after this time, or was never made.
		if err = sleep(ctx, settleTime); err == nil {
			vm, err = findSurvivor(ctx, cloud, spec, request)
		}
	}
	if err != nil {
		return VM{}, err
	}
	if vm == nil && request.MustExist {
		return VM{}, failed("NotFound", "the cloud shows no VM of Machine %s", request.Machine.Name)
	}
	if vm == nil {
		if vm, err = p.create(ctx, cloud, spec, request); err != nil {
			return VM{}, err
		}
	}
	state := vm.State
	if !vm.isAlive() {
		state = "failed"
	}
	return VM{State: state, ProviderID: vm.providerID(), NodeName: vm.Name, Addresses: vm.Addresses}, nil
}

// useDefaults gives providerSpec the fields of providerSpecDefaults that it does not have.
func useDefaults(request *EnsureVMRequest) error {
	if len(request.ProviderSpecDefaults) == 0 {
		return nil
	}
	all := maps.Clone(request.ProviderSpecDefaults)
	if json.Unmarshal(request.ProviderSpec, &all) != nil {
		return failed("InvalidArgument", "providerSpec is no object: correct it")
	}
	spec, err := json.Marshal(all)
	request.ProviderSpec = spec
	return err
}

// findSurvivor answers the VM that the Machine names, else its oldest one, else nil. It deletes the others.
func findSurvivor(ctx context.Context, cloud *Cloud, spec Spec, request EnsureVMRequest) (*Resource, error) {
	own, stranger, err := findOwn(ctx, cloud, spec, request.Machine.UID, request.ProviderID)
	if err != nil {
		return nil, err
	}
	if stranger != nil {
		return nil, ofOthers(stranger)
	}
	named := namedID(request.ProviderID)
	var survivor *Resource
	for i, each := range own {
		if each.isVM() && each.isAlive() && (survivor == nil || strings.EqualFold(each.ID, named)) {
			survivor = &own[i]
		}
	}
	for _, each := range own {
		if each.isVM() && each.isAlive() && each.ID != survivor.ID && !request.MustExist {
			if err := cloud.delete(ctx, each); err != nil {
				return nil, err
			}
		}
	}
	return survivor, nil
}

// findOwn answers all that is the Machine's, oldest first, and the VM that it names if that is somebody else's.
func findOwn(ctx context.Context, cloud *Cloud, spec Spec, uid, providerID string) (own []Resource, stranger *Resource, err error) {
	own, err = cloud.listAll(ctx, map[string]string{uidTag: uid})
	named := namedID(providerID)
	isNamed := func(each Resource) bool { return each.isVM() && strings.EqualFold(each.ID, named) }
	if err != nil || named == "" || slices.ContainsFunc(own, isNamed) {
		return own, nil, err
	}
	found, err := cloud.withParts(ctx, named)
	if err != nil {
		return nil, nil, err
	}
	if at := slices.IndexFunc(found, isNamed); at >= 0 && !hasTags(found[at], spec.Tags) {
		return own, &found[at], nil
	}
	return append(own, found...), nil, nil
}

// namedID answers the ID of the VM that a provider ID names, if it is of this cloud, in lower case: IDs of this cloud
// are. Others spell them, and the place before, otherwise.
func namedID(providerID string) string {
	scheme, rest, _ := strings.Cut(strings.ToLower(providerID), "://")
	if scheme != "simulated" {
		return ""
	}
	return rest[strings.LastIndex(rest, "/")+1:]
}

func hasTags(resource Resource, wanted map[string]string) bool {
	for key, value := range wanted {
		if has, isThere := resource.Tags[key]; !isThere || has != value {
			return false
		}
	}
	return true
}

func ofOthers(vm *Resource) *Failure {
	return failed("FailedPrecondition", "the VM %s is neither used nor deleted: it has neither the tags of the class nor the UID of "+
		"the Machine: correct or remove spec.providerID", vm.providerID())
}

func (p *Provider) create(ctx context.Context, cloud *Cloud, spec Spec, request EnsureVMRequest) (*Resource, error) {
	if problem := machineTypeProblem(spec); problem != "" {
		return nil, failed("InvalidArgument", "%s", problem)
	}
	at := request.UserData
	keys, err := p.secrets.read(ctx, at.SecretRef)
	if err != nil {
		return nil, err
	}
	if keys[at.Key] == "" {
		return nil, failed("InvalidArgument", "Secret %s/%s has no user data: add the key %s", at.Namespace, at.Name, at.Key)
	}
	cloud.hide(keys)
	tags := maps.Clone(spec.Tags)
	tags[uidTag] = request.Machine.UID
	body := map[string]any{
		"token":       request.Token, // the cloud makes no second VM for it
		"name":        request.Machine.Name,
		"region":      regionOf(spec),
		"machineType": spec.MachineType,
		"tags":        tags,
		"partTags":    tags, // of its disk, NIC and address
		"userData":    keys[at.Key],
		"node":        map[string]any{"labels": orEmpty(spec.Labels), "taints": append([]json.RawMessage{}, spec.Taints...)},
	}
	var vm Resource
	if err := cloud.call(ctx, http.MethodPost, "/v1/vms", body, &vm); err != nil {
		return nil, err
	}
	return &vm, nil
}

func regionOf(spec Spec) string {
	if spec.Region == "" {
		return "local"
	}
	return spec.Region
}

func orEmpty(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}

func (p *Provider) DeleteVM(ctx context.Context, request DeleteVMRequest) (VMDeletion, error) {
	start := time.Now()
	spec, cloud, err := p.open(ctx, request.Scope)
	if err != nil {
		return VMDeletion{}, err
	}
	settled := start
	if request.OutcomeUnknown {
		settled = start.Add(settleTime)
	}
	names := []string{}
	for {
		now := time.Now()
		own, stranger, err := findDeletable(ctx, cloud, spec, request)
		if err != nil {
			return VMDeletion{}, err
		}
		for _, each := range own {
			if each.isVM() && !slices.Contains(names, each.Name) {
				names = append(names, each.Name)
			}
		}
		if len(own) == 0 && request.MayBeUntagged {
			untagged, err := findUntagged(ctx, cloud, spec, request.Machine.Name)
			if err != nil || untagged != nil {
				return VMDeletion{State: "deleting", NodeNames: names, UntaggedVM: untagged}, err
			}
		}
		if len(own) == 0 && !now.Before(settled) {
			if stranger != nil {
				return VMDeletion{}, ofOthers(stranger)
			}
			return VMDeletion{State: "gone", NodeNames: names}, nil
		}
		if !areKnown(names, request.NodeNames) || time.Since(start) > deletionTime {
			return VMDeletion{State: "deleting", NodeNames: names}, nil
		}
		if err := deleteNext(ctx, cloud, own); err != nil {
			return VMDeletion{}, err
		}
		if err := sleep(ctx, deletionPause); err != nil {
			return VMDeletion{}, err
		}
	}
}

// areKnown says whether Millwright knows the Nodes of all VMs that would be deleted. nil: it does not ask for that.
func areKnown(names []string, known *[]string) bool {
	if known == nil {
		return true
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(*known, name) })
}

// deleteNext asks for the deletion of the VMs. Most parts go with them, and none can go before; then of what is left.
func deleteNext(ctx context.Context, cloud *Cloud, own []Resource) error {
	hasVMs := slices.ContainsFunc(own, Resource.isVM)
	for _, each := range own {
		if each.isVM() != hasVMs || each.State == "deleting" {
			continue
		}
		if err := cloud.delete(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

// findDeletable answers as findOwn, or for the sweep the one resource that it wants to be deleted.
func findDeletable(ctx context.Context, cloud *Cloud, spec Spec, request DeleteVMRequest) ([]Resource, *Resource, error) {
	only := request.Only
	if only == nil {
		return findOwn(ctx, cloud, spec, request.Machine.UID, request.ProviderID)
	}
	one, err := cloud.get(ctx, only.Kind, only.ID[strings.LastIndex(only.ID, "/")+1:])
	if errors.Is(err, errAbsent) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if one.Tags[uidTag] != only.UID || !hasTags(one, spec.Tags) {
		return nil, nil, failed("FailedPrecondition", "%s has changed: it lacks the tags of its class or has another UID tag than the request", one.ID)
	}
	return []Resource{one}, nil, nil
}

// findUntagged answers the VM that another system has made: with the Machine's name, the tags of the class, and no UID.
func findUntagged(ctx context.Context, cloud *Cloud, spec Spec, name string) (*UntaggedVM, error) {
	all, err := cloud.listAll(ctx, spec.Tags)
	if err != nil {
		return nil, err
	}
	var found []Resource
	for _, each := range all {
		if _, hasUID := each.Tags[uidTag]; each.isVM() && each.isAlive() && each.Name == name && !hasUID {
			found = append(found, each)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &UntaggedVM{ProviderID: found[0].providerID(), NodeName: found[0].Name}, nil
	default:
		return nil, failed("OutOfRange", "%d VMs have the name and the tags of the Machine: set spec.providerID to one, or delete them", len(found))
	}
}

func (p *Provider) ListVMs(ctx context.Context, request ListVMsRequest) (VMPage, error) {
	spec, cloud, err := p.open(ctx, request.Scope)
	if err != nil {
		return VMPage{}, err
	}
	page, err := cloud.list(ctx, spec.Tags, request.Page)
	if err != nil {
		return VMPage{}, err
	}
	items := []CloudResource{}
	for _, each := range page.Items {
		item := CloudResource{Kind: each.Kind, ID: each.ID, UID: each.Tags[uidTag], Name: each.Name, CreatedAt: each.CreatedAt}
		if each.isVM() {
			isAlive := each.isAlive()
			item.ID, item.Alive = each.providerID(), &isAlive
		} else if each.VM != "" {
			item.AttachedTo = (Resource{ID: each.VM, Region: regionOf(spec)}).providerID()
		}
		if !request.WithoutTags {
			item.Tags = each.Tags
		}
		items = append(items, item)
	}
	return VMPage{Items: items, NextPage: page.NextPage}, nil
}

// ValidateClass asks no cloud.
func (p *Provider) ValidateClass(ctx context.Context, request ValidateClassRequest) (ClassVerdict, error) {
	spec, problems := readSpec(request.Scope)
	if problem := machineTypeProblem(spec); problem != "" {
		problems = append(problems, problem)
	}
	keys, err := p.secrets.merge(ctx, request.Credentials)
	if err != nil {
		return ClassVerdict{}, err
	}
	if strings.TrimSpace(keys["token"]) == "" {
		problems = append(problems, "no Secret has the key token: add it to one")
	}
	scope, err := json.Marshal([]any{spec.Endpoint, spec.Tags, request.Credentials}) // the keys of a map are sorted
	return ClassVerdict{Problems: problems, ListScope: string(scope)}, err
}

// VolumeIDs knows the volumes of the cloud's CSI driver, and leaves out all others.
func (p *Provider) VolumeIDs(_ context.Context, request VolumeIDsRequest) (VolumeIDs, error) {
	ids := map[string]string{}
	for _, volume := range request.Volumes {
		var spec struct {
			CSI struct{ Driver, VolumeHandle string } `json:"csi"`
		}
		if json.Unmarshal(volume.Spec, &spec) == nil && spec.CSI.Driver == "csi.simulated.millwright.dev" {
			ids[volume.Name] = spec.CSI.VolumeHandle
		}
	}
	return VolumeIDs{IDs: ids}, nil
}
