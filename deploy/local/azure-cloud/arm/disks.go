package main

import (
	"context"
	"strings"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
)

const diskKind = "Microsoft.Compute/disks"

type disk struct {
	armcompute.Disk
	visibleAt time.Time
}

func (c *cloud) diskServer() *fake.DisksServer {
	return &fake.DisksServer{
		BeginCreateOrUpdate: func(_ context.Context, group, name string, body armcompute.Disk, _ *armcompute.DisksClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armcompute.DisksClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
			made, err := c.putDisk(group, name, body)
			if err != nil {
				errResp.SetError(err)
				return
			}
			c.start("disk", c.timing.change, func() {
				made.Properties.ProvisioningState = to.Ptr("Succeeded")
			}, func() { made.Properties.ProvisioningState = to.Ptr("Failed") })
			resp.SetTerminalResponse(200, armcompute.DisksClientCreateOrUpdateResponse{Disk: made.Disk}, nil)
			return
		},
		BeginUpdate: func(_ context.Context, group, name string, body armcompute.DiskUpdate, _ *armcompute.DisksClientBeginUpdateOptions) (resp azfake.PollerResponder[armcompute.DisksClientUpdateResponse], errResp azfake.ErrorResponder) {
			each := c.disks[keyOf(pathOf(group, diskKind, name))]
			if each == nil {
				errResp.SetError(notFound(diskKind, name, group))
				return
			}
			if body.Tags != nil {
				each.Tags = body.Tags
			}
			if body.SKU != nil {
				each.SKU = body.SKU
			}
			if body.Properties != nil && body.Properties.DiskSizeGB != nil {
				each.Properties.DiskSizeGB = body.Properties.DiskSizeGB
			}
			c.start("disk", c.timing.change, func() {}, func() {})
			resp.SetTerminalResponse(200, armcompute.DisksClientUpdateResponse{Disk: each.Disk}, nil)
			return
		},
		BeginDelete: func(_ context.Context, group, name string, _ *armcompute.DisksClientBeginDeleteOptions) (resp azfake.PollerResponder[armcompute.DisksClientDeleteResponse], errResp azfake.ErrorResponder) {
			each := c.disks[keyOf(pathOf(group, diskKind, name))]
			if each != nil {
				if each.ManagedBy != nil {
					errResp.SetError(refuse(409, "OperationNotAllowed", "Disk %s is attached to VM %s.", *each.Name, *each.ManagedBy))
					return
				}
				c.start("disk", c.timing.change, func() { delete(c.disks, keyOf(*each.ID)) }, func() {})
			}
			resp.SetTerminalResponse(204, armcompute.DisksClientDeleteResponse{}, nil)
			return
		},
		Get: func(_ context.Context, group, name string, _ *armcompute.DisksClientGetOptions) (resp azfake.Responder[armcompute.DisksClientGetResponse], errResp azfake.ErrorResponder) {
			if each := c.disks[keyOf(pathOf(group, diskKind, name))]; each != nil {
				resp.SetResponse(200, armcompute.DisksClientGetResponse{Disk: each.Disk}, nil)
			} else {
				errResp.SetError(notFound(diskKind, name, group))
			}
			return
		},
		NewListByResourceGroupPager: func(group string, _ *armcompute.DisksClientListByResourceGroupOptions) (resp azfake.PagerResponder[armcompute.DisksClientListByResourceGroupResponse]) {
			items, next := page(c, c.disks, group, diskKind, func(each *disk) time.Time { return each.visibleAt })
			list := armcompute.DiskList{Value: []*armcompute.Disk{}, NextLink: next}
			for _, each := range items {
				list.Value = append(list.Value, &each.Disk)
			}
			resp.AddPage(200, armcompute.DisksClientListByResourceGroupResponse{DiskList: list}, nil)
			return
		},
	}
}

func (c *cloud) putDisk(group, name string, body armcompute.Disk) (*disk, *refusal) {
	if body.Location == nil || !strings.EqualFold(*body.Location, location) {
		return nil, refuse(400, "LocationRequired", "The location property is required for this definition.")
	}
	if body.Properties == nil || body.Properties.CreationData == nil || body.Properties.CreationData.CreateOption == nil {
		return nil, invalid("disk.properties.creationData.createOption", "Required parameter 'disk.properties.creationData.createOption' is missing (null).")
	}
	creation := body.Properties.CreationData
	if err := checkZones(body.Zones); err != nil {
		return nil, err
	}
	for _, image := range []*armcompute.ImageDiskReference{creation.GalleryImageReference, creation.ImageReference} {
		if image == nil {
			continue
		}
		for _, id := range []*string{image.ID, image.CommunityGalleryImageID, image.SharedGalleryImageID} {
			if id != nil && !isImage(*id) {
				return nil, refuse(404, "GalleryImageNotFound", "The gallery image %s is not available in %s region.", *id, location)
			}
		}
	}
	if *creation.CreateOption == armcompute.DiskCreateOptionEmpty && body.Properties.DiskSizeGB == nil {
		return nil, invalid("disk.properties.diskSizeGB", "Required parameter 'disk.properties.diskSizeGB' is missing (null).")
	}
	old := c.disks[keyOf(pathOf(group, diskKind, name))]
	if old == nil {
		return c.makeDisk(group, name, body), nil
	}
	if *old.Properties.CreationData.CreateOption != *creation.CreateOption {
		return nil, refuse(409, "PropertyChangeNotAllowed", "Changing property 'creationData' is not allowed for existing disk '%s'.", name)
	}
	old.Tags = body.Tags
	if body.Properties.DiskSizeGB != nil {
		old.Properties.DiskSizeGB = body.Properties.DiskSizeGB
	}
	return old, nil
}

// isImage also knows the images of the marketplace by their paths.
func isImage(id string) bool {
	id = strings.ToLower(id)
	if references[id] {
		return true
	}
	parts := strings.Split(id, "/")
	if len(parts) != 17 {
		return false
	}
	_, found := images[strings.Join([]string{parts[8], parts[12], parts[14], parts[16]}, ":")]
	return found
}

func (c *cloud) makeDisk(group, name string, body armcompute.Disk) *disk {
	made := &disk{Disk: body, visibleAt: c.now.faults.visibleAt()}
	id := pathOf(group, diskKind, name)
	made.ID, made.Name, made.Type = &id, &name, to.Ptr(diskKind)
	made.Properties.TimeCreated = to.Ptr(time.Now().UTC())
	made.Properties.UniqueID = to.Ptr(newID())
	made.Properties.DiskState = to.Ptr(armcompute.DiskStateUnattached)
	made.Properties.ProvisioningState = to.Ptr("Updating")
	if made.Properties.DiskSizeGB == nil {
		made.Properties.DiskSizeGB = to.Ptr[int32](30)
	}
	c.disks[keyOf(id)] = made
	return made
}

func (d *disk) attach(vmID string) {
	d.ManagedBy = &vmID
	d.Properties.DiskState = to.Ptr(armcompute.DiskStateAttached)
}

func (d *disk) detach() {
	d.ManagedBy = nil
	d.Properties.DiskState = to.Ptr(armcompute.DiskStateUnattached)
}
