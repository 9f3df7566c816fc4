package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
)

const vmKind = "Microsoft.Compute/virtualMachines"

type vm struct {
	armcompute.VirtualMachine
	visibleAt  time.Time
	customData string // Azure takes it and never shows it
	deletion   *operation
	isRunning  bool
	isOver     bool
	// leftover are the parts that outlive the VM whatever their delete option says.
	leftover []string
}

func (c *cloud) vmServer() *fake.VirtualMachinesServer {
	return &fake.VirtualMachinesServer{
		BeginCreateOrUpdate: func(_ context.Context, group, name string, body armcompute.VirtualMachine, options *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
			made, err := c.putVM(group, name, body, options)
			if err != nil {
				errResp.SetError(err)
				return
			}
			resp.SetTerminalResponse(200, armcompute.VirtualMachinesClientCreateOrUpdateResponse{VirtualMachine: made.VirtualMachine}, nil)
			return
		},
		BeginUpdate: func(_ context.Context, group, name string, body armcompute.VirtualMachineUpdate, _ *armcompute.VirtualMachinesClientBeginUpdateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientUpdateResponse], errResp azfake.ErrorResponder) {
			each := c.vms[keyOf(pathOf(group, vmKind, name))]
			if each == nil {
				errResp.SetError(notFound(vmKind, name, group))
				return
			}
			if err := c.change(each, body.Properties, body.Tags); err != nil {
				errResp.SetError(err)
				return
			}
			if body.Identity != nil {
				each.Identity = body.Identity
			}
			resp.SetTerminalResponse(200, armcompute.VirtualMachinesClientUpdateResponse{VirtualMachine: each.VirtualMachine}, nil)
			return
		},
		BeginDelete: func(_ context.Context, group, name string, _ *armcompute.VirtualMachinesClientBeginDeleteOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], errResp azfake.ErrorResponder) {
			if each := c.vms[keyOf(pathOf(group, vmKind, name))]; each != nil {
				c.deleteVM(each)
			}
			resp.SetTerminalResponse(204, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
			return
		},
		Get: func(_ context.Context, group, name string, options *armcompute.VirtualMachinesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientGetResponse], errResp azfake.ErrorResponder) {
			each := c.vms[keyOf(pathOf(group, vmKind, name))]
			if each == nil {
				errResp.SetError(notFound(vmKind, name, group))
				return
			}
			shown := each.VirtualMachine
			if options != nil && value(options.Expand) == armcompute.InstanceViewTypesInstanceView {
				properties := *shown.Properties
				properties.InstanceView = each.instanceView()
				shown.Properties = &properties
			}
			resp.SetResponse(200, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: shown}, nil)
			return
		},
		InstanceView: func(_ context.Context, group, name string, _ *armcompute.VirtualMachinesClientInstanceViewOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientInstanceViewResponse], errResp azfake.ErrorResponder) {
			each := c.vms[keyOf(pathOf(group, vmKind, name))]
			if each == nil {
				errResp.SetError(notFound(vmKind, name, group))
				return
			}
			resp.SetResponse(200, armcompute.VirtualMachinesClientInstanceViewResponse{VirtualMachineInstanceView: *each.instanceView()}, nil)
			return
		},
		NewListPager: func(group string, _ *armcompute.VirtualMachinesClientListOptions) (resp azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
			items, next := page(c, c.vms, group, vmKind, func(each *vm) time.Time { return each.visibleAt })
			list := armcompute.VirtualMachineListResult{Value: []*armcompute.VirtualMachine{}, NextLink: next}
			for _, each := range items {
				list.Value = append(list.Value, &each.VirtualMachine)
			}
			resp.AddPage(200, armcompute.VirtualMachinesClientListResponse{VirtualMachineListResult: list}, nil)
			return
		},
	}
}

func invalid(target, format string, args ...any) *refusal {
	refused := refuse(400, "InvalidParameter", format, args...)
	refused.Target = target
	return refused
}

func checkZones(wanted []*string) *refusal {
	for _, zone := range wanted {
		if !slices.Contains(zones, value(zone)) {
			return refuse(400, "InvalidAvailabilityZone", "The zone(s) '%s' for resource is not supported. The supported zones for location "+
				"'%s' are '%s'", value(zone), location, strings.Join(zones, ","))
		}
	}
	return nil
}

func (c *cloud) putVM(group, name string, body armcompute.VirtualMachine, options *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (*vm, *refusal) {
	id := pathOf(group, vmKind, name)
	old := c.vms[keyOf(id)]
	if old != nil && options != nil && value(options.IfNoneMatch) == "*" {
		return nil, refuse(412, "PreconditionFailed", "The condition specified using HTTP conditional header(s) is not met.")
	}
	if body.Location == nil {
		return nil, refuse(400, "LocationRequired", "The location property is required for this definition.")
	}
	if old != nil {
		return old, c.replaceVM(old, body)
	}
	nics, err := c.checkVM(id, body)
	if err != nil {
		return nil, err
	}
	if err := c.checkCapacity(id, body); err != nil {
		// Azure keeps the NICs for this VM, should it come after all.
		for _, each := range nics {
			each.reservedFor, each.reservedUntil = id, time.Now().Add(c.timing.reservation)
		}
		return nil, err
	}
	return c.makeVM(id, name, group, body, nics), nil
}

// checkVM refuses what Azure refuses before it does anything, and answers the NICs of the VM.
func (c *cloud) checkVM(id string, body armcompute.VirtualMachine) ([]*nic, *refusal) {
	if !strings.EqualFold(*body.Location, location) {
		return nil, refuse(400, "LocationNotAvailableForResourceType", "The provided location '%s' is not available for resource type '%s'.", *body.Location, vmKind)
	}
	if err := checkZones(body.Zones); err != nil {
		return nil, err
	}
	p := body.Properties
	if p == nil || p.HardwareProfile == nil || p.HardwareProfile.VMSize == nil {
		return nil, invalid("vmSize", "Required parameter 'vmSize' is missing (null).")
	}
	if size := string(*p.HardwareProfile.VMSize); cores[strings.ToLower(size)] == 0 {
		return nil, invalid("vmSize", "The value %s provided for the VM size is not valid. The valid sizes in the current region are: %s.", size, "Standard_D2s_v5")
	}
	if p.StorageProfile == nil || p.StorageProfile.OSDisk == nil || p.StorageProfile.OSDisk.CreateOption == nil {
		return nil, invalid("osDisk.createOption", "Required parameter 'osDisk.createOption' is missing (null).")
	}
	if *p.StorageProfile.OSDisk.CreateOption == armcompute.DiskCreateOptionTypesFromImage {
		if p.StorageProfile.ImageReference == nil {
			return nil, invalid("imageReference", "Required parameter 'imageReference' is missing (null).")
		}
		if p.OSProfile == nil || p.OSProfile.ComputerName == nil || p.OSProfile.AdminUsername == nil {
			return nil, invalid("osProfile", "Required parameter 'osProfile' is missing (null).")
		}
		if err := c.checkImage(p.StorageProfile.ImageReference, body.Plan, id); err != nil {
			return nil, err
		}
		if linux := p.OSProfile.LinuxConfiguration; p.OSProfile.AdminPassword == nil && (linux == nil || linux.SSH == nil || len(linux.SSH.PublicKeys) == 0) {
			return nil, invalid("linuxConfiguration.ssh.publicKeys", "Authentication using either SSH or by user name and password must be enabled in Linux profile.")
		}
		if len(value(p.OSProfile.CustomData)) > 87380 {
			return nil, invalid("customData", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.")
		}
	}
	if len(body.Zones) > 0 && p.AvailabilitySet != nil {
		return nil, refuse(400, "BadRequest", "Virtual Machine cannot be created because both Availability Zone and Availability Set were specified. "+
			"Deploying an Availability Set to an Availability Zone isn't supported.")
	}
	named := []*string{}
	for _, each := range []*armcompute.SubResource{p.AvailabilitySet, p.VirtualMachineScaleSet} {
		if each != nil {
			named = append(named, each.ID)
		}
	}
	if p.CapacityReservation != nil && p.CapacityReservation.CapacityReservationGroup != nil {
		named = append(named, p.CapacityReservation.CapacityReservationGroup.ID)
	}
	if body.Identity != nil {
		for each := range body.Identity.UserAssignedIdentities {
			named = append(named, &each)
		}
	}
	for _, each := range named {
		if !references[strings.ToLower(value(each))] {
			return nil, refuse(404, "NotFound", "Resource %s not found.", value(each))
		}
	}
	for _, each := range p.StorageProfile.DataDisks {
		if err := c.checkDataDisk(id, each); err != nil {
			return nil, err
		}
	}
	if own := value(p.StorageProfile.OSDisk.Name); own != "" && *p.StorageProfile.OSDisk.CreateOption == armcompute.DiskCreateOptionTypesFromImage {
		if found := c.disks[keyOf(pathOf(groupOf(id), diskKind, own))]; found != nil {
			return nil, refuse(409, "ConflictingUserInput", "Disk %s already exists in resource group %s. Only CreateOption.Attach is supported.", own, groupOf(id))
		}
	}
	return c.checkNICs(id, p.NetworkProfile)
}

func (c *cloud) checkDataDisk(id string, wanted *armcompute.DataDisk) *refusal {
	if wanted.Lun == nil || wanted.CreateOption == nil {
		return invalid("dataDisk.lun", "Required parameter 'dataDisk.lun' is missing (null).")
	}
	if *wanted.CreateOption == armcompute.DiskCreateOptionTypesAttach {
		existing := ""
		if wanted.ManagedDisk != nil {
			existing = value(wanted.ManagedDisk.ID)
		}
		found := c.disks[keyOf(existing)]
		if found == nil {
			return refuse(404, "NotFound", "Resource %s not found.", existing)
		}
		if found.ManagedBy != nil {
			return refuse(409, "ConflictingUserInput", "Disk '%s' cannot be attached as the disk is already owned by VM '%s'.", existing, *found.ManagedBy)
		}
		return nil
	}
	if found := c.disks[keyOf(pathOf(groupOf(id), diskKind, value(wanted.Name)))]; found != nil {
		return refuse(409, "ConflictingUserInput", "Disk %s already exists in resource group %s. Only CreateOption.Attach is supported.", value(wanted.Name), groupOf(id))
	}
	return nil
}

func (c *cloud) checkNICs(id string, wanted *armcompute.NetworkProfile) ([]*nic, *refusal) {
	if wanted == nil || len(wanted.NetworkInterfaces) == 0 {
		return nil, invalid("networkProfile", "Virtual Machine %s must have at least one network interface.", id)
	}
	var nics []*nic
	for _, each := range wanted.NetworkInterfaces {
		found := c.nics[keyOf(value(each.ID))]
		if found == nil || found.deleting {
			return nil, refuse(404, "NotFound", "Resource %s not found.", value(each.ID))
		}
		if user := found.Properties.VirtualMachine; user != nil {
			return nil, refuse(400, "NicInUse", "Network Interface %s is used by existing VM %s.", *found.ID, *user.ID)
		}
		if err := found.checkReservation(id); err != nil {
			return nil, err
		}
		nics = append(nics, found)
	}
	return nics, nil
}

func (c *cloud) checkCapacity(id string, body armcompute.VirtualMachine) *refusal {
	size := string(*body.Properties.HardwareProfile.VMSize)
	if f := c.now.faults.Capacity; f != nil && f.Code == "SkuNotAvailable" {
		return refuse(409, f.Code, "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: %s' is "+
			"currently not available in location '%s'. Please try another size or deploy to a different location or different zone. "+
			"See https://aka.ms/azureskunotavailable for details.", size, location)
	}
	if f := c.now.faults.Quota; f != nil {
		used, more := 0, cores[strings.ToLower(size)]
		for _, each := range c.vms {
			used += cores[strings.ToLower(string(*each.Properties.HardwareProfile.VMSize))]
		}
		if used+more > f.Limit {
			return refuse(409, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional "+
				"Cores quota. Additional details - Deployment Model: Resource Manager, Location: %s, Current Limit: %d, Current Usage: %d, "+
				"Additional Required: %d, (Minimum) New Limit Required: %d. Setup Alerts when Quota reaches threshold. Learn more at "+
				"https://aka.ms/quotamonitoringalerting . Submit a request for Quota increase at https://aka.ms/ProdportalCRP.",
				location, f.Limit, used, more, used+more)
		}
	}
	return nil
}

func (c *cloud) makeVM(id, name, group string, body armcompute.VirtualMachine, nics []*nic) *vm {
	made := &vm{VirtualMachine: body, visibleAt: c.now.faults.visibleAt()}
	if f := c.now.faults.Leftover; f != nil {
		made.leftover = f.Parts
	}
	p := made.Properties
	made.ID, made.Name, made.Type, made.Etag = &id, &name, to.Ptr(vmKind), to.Ptr(`"1"`)
	p.VMID, p.TimeCreated = to.Ptr(newID()), to.Ptr(time.Now().UTC())
	p.ProvisioningState = to.Ptr("Creating")
	if p.OSProfile != nil {
		made.customData = value(p.OSProfile.CustomData)
		p.OSProfile.CustomData, p.OSProfile.AdminPassword = nil, nil
	}
	for _, each := range nics {
		each.Properties.VirtualMachine = &armnetwork.SubResource{ID: &id}
		each.reservedUntil = time.Time{}
	}
	c.makeDisks(made, group)
	for _, each := range p.NetworkProfile.NetworkInterfaces {
		if each.Properties == nil {
			each.Properties = &armcompute.NetworkInterfaceReferenceProperties{}
		}
		if each.Properties.DeleteOption == nil {
			each.Properties.DeleteOption = to.Ptr(armcompute.DeleteOptionsDetach)
		}
	}
	c.vms[keyOf(id)] = made
	c.now.created = true
	c.start("vm", c.timing.boot, func() {
		if made.deletion == nil && !made.isOver {
			p.ProvisioningState = to.Ptr("Succeeded")
			made.isRunning = true
			c.tellStart(made, nics)
		}
	}, func() {
		if made.deletion == nil {
			p.ProvisioningState = to.Ptr("Failed")
		}
	})
	return made
}

// makeDisks makes the disks that come with a VM, which have its tags and zones, and attaches those that there are.
func (c *cloud) makeDisks(made *vm, group string) {
	storage := made.Properties.StorageProfile
	newDisk := func(name string, sku *armcompute.StorageAccountTypes, size *int32, option armcompute.DiskCreateOption) *disk {
		account := armcompute.DiskStorageAccountTypesStandardLRS
		if sku != nil {
			account = armcompute.DiskStorageAccountTypes(*sku)
		}
		disk := c.makeDisk(group, name, armcompute.Disk{
			Location: made.Location, Zones: made.Zones, Tags: made.Tags, SKU: &armcompute.DiskSKU{Name: &account},
			Properties: &armcompute.DiskProperties{DiskSizeGB: size, CreationData: &armcompute.CreationData{CreateOption: &option}},
		})
		disk.Properties.ProvisioningState = to.Ptr("Succeeded")
		disk.attach(*made.ID)
		return disk
	}
	os := storage.OSDisk
	if value(os.Name) == "" {
		os.Name = to.Ptr(fmt.Sprintf("%s_OsDisk_1_%s", *made.Name, strings.ReplaceAll(newID(), "-", "")))
	}
	if os.ManagedDisk == nil {
		os.ManagedDisk = &armcompute.ManagedDiskParameters{}
	}
	os.ManagedDisk.ID = newDisk(*os.Name, os.ManagedDisk.StorageAccountType, os.DiskSizeGB, armcompute.DiskCreateOptionFromImage).ID
	if os.DeleteOption == nil {
		os.DeleteOption = to.Ptr(armcompute.DiskDeleteOptionTypesDetach)
	}
	for _, data := range storage.DataDisks {
		if data.ManagedDisk == nil {
			data.ManagedDisk = &armcompute.ManagedDiskParameters{}
		}
		if *data.CreateOption == armcompute.DiskCreateOptionTypesAttach {
			found := c.disks[keyOf(*data.ManagedDisk.ID)]
			found.attach(*made.ID)
			data.Name = found.Name
		} else {
			if value(data.Name) == "" {
				data.Name = to.Ptr(fmt.Sprintf("%s_disk%d_%s", *made.Name, *data.Lun, strings.ReplaceAll(newID(), "-", "")))
			}
			data.ManagedDisk.ID = newDisk(*data.Name, data.ManagedDisk.StorageAccountType, data.DiskSizeGB, armcompute.DiskCreateOptionEmpty).ID
		}
		if data.DeleteOption == nil {
			data.DeleteOption = to.Ptr(armcompute.DiskDeleteOptionTypesDetach)
		}
	}
}

// replaceVM is a PUT for a VM that there is. Most of it cannot be changed.
func (c *cloud) replaceVM(old *vm, body armcompute.VirtualMachine) *refusal {
	p := body.Properties
	refused := func(property string) *refusal {
		err := refuse(409, "PropertyChangeNotAllowed", "Changing property '%s' is not allowed.", property)
		err.Target = property
		return err
	}
	if old.deletion == nil && p != nil {
		if p.OSProfile != nil && p.OSProfile.CustomData != nil && *p.OSProfile.CustomData != old.customData {
			return refused("customData")
		}
		if len(body.Zones) != len(old.Zones) || len(body.Zones) > 0 && value(body.Zones[0]) != value(old.Zones[0]) {
			return refused("zones")
		}
		if p.StorageProfile != nil && p.StorageProfile.ImageReference != nil && !sameImage(p.StorageProfile.ImageReference, old.Properties.StorageProfile.ImageReference) {
			return refused("imageReference")
		}
		if p.StorageProfile != nil && p.StorageProfile.OSDisk != nil && p.StorageProfile.OSDisk.Name != nil && *p.StorageProfile.OSDisk.Name != *old.Properties.StorageProfile.OSDisk.Name {
			return refused("osDisk.name")
		}
	}
	return c.change(old, p, body.Tags)
}

func sameImage(a, b *armcompute.ImageReference) bool {
	text := func(r *armcompute.ImageReference) string {
		return strings.ToLower(strings.Join([]string{value(r.ID), value(r.CommunityGalleryImageID), value(r.SharedGalleryImageID),
			value(r.Publisher), value(r.Offer), value(r.SKU), value(r.Version)}, ":"))
	}
	return b != nil && text(a) == text(b)
}

// change changes what may be changed of a VM: tags, size, and what goes with the VM.
func (c *cloud) change(each *vm, p *armcompute.VirtualMachineProperties, tags map[string]*string) *refusal {
	if each.deletion != nil {
		return refuse(409, "OperationNotAllowed", "Operation 'Update VM' is not allowed on VM '%s' since the VM is marked for deletion. "+
			"You can only retry the Delete operation (or wait for an ongoing one to complete).", *each.Name)
	}
	if tags != nil {
		each.Tags = tags
	}
	own := each.Properties
	if p != nil {
		if p.HardwareProfile != nil && p.HardwareProfile.VMSize != nil {
			own.HardwareProfile = p.HardwareProfile
		}
		if p.NetworkProfile != nil {
			for _, wanted := range p.NetworkProfile.NetworkInterfaces {
				for _, nic := range own.NetworkProfile.NetworkInterfaces {
					if strings.EqualFold(value(nic.ID), value(wanted.ID)) && wanted.Properties != nil && wanted.Properties.DeleteOption != nil {
						nic.Properties.DeleteOption = wanted.Properties.DeleteOption
					}
				}
			}
		}
		if s := p.StorageProfile; s != nil {
			if s.OSDisk != nil && s.OSDisk.DeleteOption != nil {
				own.StorageProfile.OSDisk.DeleteOption = s.OSDisk.DeleteOption
			}
			for _, wanted := range s.DataDisks {
				for _, data := range own.StorageProfile.DataDisks {
					if value(data.Lun) == value(wanted.Lun) && wanted.DeleteOption != nil {
						data.DeleteOption = wanted.DeleteOption
					}
				}
			}
		}
	}
	before := *own.ProvisioningState
	if before != "Creating" {
		own.ProvisioningState = to.Ptr("Updating")
	}
	back := func(state string) func() {
		return func() {
			if each.deletion == nil && *own.ProvisioningState == "Updating" {
				own.ProvisioningState = to.Ptr(state)
			}
		}
	}
	c.start("vm", c.timing.change, back(before), back("Failed"))
	return nil
}

func (c *cloud) deleteVM(each *vm) {
	if each.deletion != nil && each.deletion.endedAt.IsZero() {
		c.now.operation = each.deletion
		return
	}
	if f := c.now.faults.Leftover; f != nil {
		each.leftover = f.Parts
	}
	hasFailed := *each.Properties.ProvisioningState == "Failed"
	each.end()
	each.Properties.ProvisioningState = to.Ptr("Deleting")
	each.deletion = c.start("vm", c.timing.delete, func() { c.removeVM(each, hasFailed) }, func() {
		each.Properties.ProvisioningState = to.Ptr("Failed")
	})
}

// removeVM takes a VM away, and deletes its parts or detaches them as their delete options say.
func (c *cloud) removeVM(each *vm, hasFailed bool) {
	delete(c.vms, keyOf(*each.ID))
	p := each.Properties
	goes := func(part, option string) bool { return option == "Delete" && !slices.Contains(each.leftover, part) }
	removeDisk := func(id *string, part, option string) {
		found := c.disks[keyOf(value(id))]
		if found == nil {
			return
		}
		found.detach()
		if goes(part, option) {
			delete(c.disks, keyOf(*id))
		}
	}
	removeDisk(p.StorageProfile.OSDisk.ManagedDisk.ID, "osDisk", string(*p.StorageProfile.OSDisk.DeleteOption))
	for _, data := range p.StorageProfile.DataDisks {
		removeDisk(data.ManagedDisk.ID, "dataDisks", string(*data.DeleteOption))
	}
	for _, reference := range p.NetworkProfile.NetworkInterfaces {
		found := c.nics[keyOf(value(reference.ID))]
		if found == nil {
			continue
		}
		found.Properties.VirtualMachine = nil
		if goes("nic", string(*reference.Properties.DeleteOption)) {
			c.removeNIC(found)
			for _, config := range found.Properties.IPConfigurations {
				if public := config.Properties.PublicIPAddress; public != nil {
					known := c.addresses[keyOf(value(public.ID))]
					wanted := public.Properties != nil && value(public.Properties.DeleteOption) == armnetwork.DeleteOptionsDelete
					if known != nil && (wanted || value(known.Properties.DeleteOption) == armnetwork.DeleteOptionsDelete) {
						delete(c.addresses, keyOf(*known.ID))
					}
				}
			}
		} else if hasFailed {
			found.reservedFor, found.reservedUntil = *each.ID, time.Now().Add(c.timing.reservation)
		}
	}
}

// end reports that the VM runs no more.
func (v *vm) end() {
	if v.isRunning && !v.isOver {
		report(map[string]any{"ended": *v.Properties.VMID})
	}
	v.isRunning, v.isOver = false, true
}

func (c *cloud) tellStart(v *vm, nics []*nic) {
	zone := ""
	if len(v.Zones) > 0 {
		zone = location + "-" + *v.Zones[0]
	}
	report(map[string]any{"started": map[string]any{
		"id": *v.Properties.VMID, "name": *v.Name, "location": location, "zone": zone,
		"size": string(*v.Properties.HardwareProfile.VMSize),
		"ip":   value(nics[0].Properties.IPConfigurations[0].Properties.PrivateIPAddress),
	}})
}

func (v *vm) instanceView() *armcompute.VirtualMachineInstanceView {
	state := *v.Properties.ProvisioningState
	status := func(code, shown string) *armcompute.InstanceViewStatus {
		return &armcompute.InstanceViewStatus{Code: &code, DisplayStatus: &shown, Level: to.Ptr(armcompute.StatusLevelTypesInfo)}
	}
	view := &armcompute.VirtualMachineInstanceView{Statuses: []*armcompute.InstanceViewStatus{
		status("ProvisioningState/"+strings.ToLower(state), "Provisioning "+strings.ToLower(state)),
	}}
	if v.isRunning {
		view.Statuses = append(view.Statuses, status("PowerState/running", "VM running"))
	}
	return view
}
