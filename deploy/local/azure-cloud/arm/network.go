package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9/fake"
)

const (
	nicKind     = "Microsoft.Network/networkInterfaces"
	addressKind = "Microsoft.Network/publicIPAddresses"
)

type nic struct {
	armnetwork.Interface
	visibleAt time.Time
	deleting  bool
	// A NIC stays for its VM for a while when the creation of that has failed.
	reservedFor   string
	reservedUntil time.Time
}

type address struct {
	armnetwork.PublicIPAddress
	visibleAt time.Time
}

func (c *cloud) networkServer() *fake.VirtualNetworksServer {
	return &fake.VirtualNetworksServer{
		Get: func(_ context.Context, group, name string, _ *armnetwork.VirtualNetworksClientGetOptions) (resp azfake.Responder[armnetwork.VirtualNetworksClientGetResponse], errResp azfake.ErrorResponder) {
			if !strings.EqualFold(name, vnetName) {
				errResp.SetError(notFound("Microsoft.Network/virtualNetworks", name, group))
				return
			}
			resp.SetResponse(200, armnetwork.VirtualNetworksClientGetResponse{VirtualNetwork: armnetwork.VirtualNetwork{
				ID: to.Ptr(pathOf(group, "Microsoft.Network/virtualNetworks", vnetName)), Name: to.Ptr(vnetName), Location: to.Ptr(location),
				Type: to.Ptr("Microsoft.Network/virtualNetworks"),
				Properties: &armnetwork.VirtualNetworkPropertiesFormat{
					AddressSpace:      &armnetwork.AddressSpace{AddressPrefixes: []*string{to.Ptr(c.subnetCIDR.String())}},
					ProvisioningState: to.Ptr(armnetwork.ProvisioningStateSucceeded),
				},
			}}, nil)
			return
		},
	}
}

func (c *cloud) subnetServer() *fake.SubnetsServer {
	return &fake.SubnetsServer{
		Get: func(_ context.Context, group, networkName, name string, _ *armnetwork.SubnetsClientGetOptions) (resp azfake.Responder[armnetwork.SubnetsClientGetResponse], errResp azfake.ErrorResponder) {
			if !strings.EqualFold(networkName, vnetName) {
				errResp.SetError(notFound("Microsoft.Network/virtualNetworks", networkName, group))
				return
			}
			id := pathOf(group, "Microsoft.Network/virtualNetworks", networkName) + "/subnets/" + name
			if !strings.EqualFold(name, subnetName) {
				errResp.SetError(refuse(404, "NotFound", "Resource %s not found.", id))
				return
			}
			resp.SetResponse(200, armnetwork.SubnetsClientGetResponse{Subnet: armnetwork.Subnet{
				ID: &id, Name: to.Ptr(subnetName), Type: to.Ptr("Microsoft.Network/virtualNetworks/subnets"),
				Properties: &armnetwork.SubnetPropertiesFormat{
					AddressPrefix:     to.Ptr(c.subnetCIDR.String()),
					ProvisioningState: to.Ptr(armnetwork.ProvisioningStateSucceeded),
				},
			}}, nil)
			return
		},
	}
}

func (c *cloud) nicServer() *fake.InterfacesServer {
	return &fake.InterfacesServer{
		BeginCreateOrUpdate: func(_ context.Context, group, name string, body armnetwork.Interface, _ *armnetwork.InterfacesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armnetwork.InterfacesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
			made, err := c.putNIC(group, name, body)
			if err != nil {
				errResp.SetError(err)
				return
			}
			resp.SetTerminalResponse(200, armnetwork.InterfacesClientCreateOrUpdateResponse{Interface: made.Interface}, nil)
			return
		},
		BeginDelete: func(_ context.Context, group, name string, _ *armnetwork.InterfacesClientBeginDeleteOptions) (resp azfake.PollerResponder[armnetwork.InterfacesClientDeleteResponse], errResp azfake.ErrorResponder) {
			each := c.nics[keyOf(pathOf(group, nicKind, name))]
			if each != nil {
				if err := each.checkDeletion(); err != nil {
					errResp.SetError(err)
					return
				}
				each.deleting = true
				each.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateDeleting)
				c.start("network", c.timing.change, func() { c.removeNIC(each) }, func() { each.fail() })
			}
			resp.SetTerminalResponse(204, armnetwork.InterfacesClientDeleteResponse{}, nil)
			return
		},
		Get: func(_ context.Context, group, name string, _ *armnetwork.InterfacesClientGetOptions) (resp azfake.Responder[armnetwork.InterfacesClientGetResponse], errResp azfake.ErrorResponder) {
			if each := c.nics[keyOf(pathOf(group, nicKind, name))]; each != nil {
				resp.SetResponse(200, armnetwork.InterfacesClientGetResponse{Interface: each.Interface}, nil)
			} else {
				errResp.SetError(notFound(nicKind, name, group))
			}
			return
		},
		NewListPager: func(group string, _ *armnetwork.InterfacesClientListOptions) (resp azfake.PagerResponder[armnetwork.InterfacesClientListResponse]) {
			items, next := page(c, c.nics, group, nicKind, func(each *nic) time.Time { return each.visibleAt })
			list := armnetwork.InterfaceListResult{Value: []*armnetwork.Interface{}, NextLink: next}
			for _, each := range items {
				list.Value = append(list.Value, &each.Interface)
			}
			resp.AddPage(200, armnetwork.InterfacesClientListResponse{InterfaceListResult: list}, nil)
			return
		},
		UpdateTags: func(_ context.Context, group, name string, body armnetwork.TagsObject, _ *armnetwork.InterfacesClientUpdateTagsOptions) (resp azfake.Responder[armnetwork.InterfacesClientUpdateTagsResponse], errResp azfake.ErrorResponder) {
			each := c.nics[keyOf(pathOf(group, nicKind, name))]
			if each == nil {
				errResp.SetError(notFound(nicKind, name, group))
				return
			}
			each.Tags = body.Tags
			resp.SetResponse(200, armnetwork.InterfacesClientUpdateTagsResponse{Interface: each.Interface}, nil)
			return
		},
	}
}

func (n *nic) fail() {
	n.deleting = false
	n.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateFailed)
}

func (n *nic) checkDeletion() *refusal {
	if n.Properties.VirtualMachine != nil {
		return refuse(400, "NicInUse", "Network Interface %s is used by existing resource %s. In order to delete the network interface, "+
			"it must be dissociated from the resource. To learn more, see aka.ms/deletenic.", *n.ID, *n.Properties.VirtualMachine.ID)
	}
	return n.checkReservation("")
}

// checkReservation refuses another user than the VM that the NIC is kept for.
func (n *nic) checkReservation(vmID string) *refusal {
	left := time.Until(n.reservedUntil)
	if left <= 0 || strings.EqualFold(n.reservedFor, vmID) {
		return nil
	}
	return refuse(400, "NicReservedForAnotherVm", "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. "+
		"Please provide another nic(s) or retry after 180 seconds. Reserved VM: %s", n.reservedFor)
}

func (c *cloud) putNIC(group, name string, body armnetwork.Interface) (*nic, *refusal) {
	id := pathOf(group, nicKind, name)
	old := c.nics[keyOf(id)]
	if body.Location == nil {
		return nil, refuse(400, "LocationRequired", "The location property is required for this definition.")
	}
	if !strings.EqualFold(*body.Location, location) {
		return nil, refuse(400, "InvalidResourceReference", "Resource %s is in another region than its subnet.", id)
	}
	if body.Properties == nil || len(body.Properties.IPConfigurations) == 0 {
		return nil, refuse(400, "NetworkInterfaceMustHaveOneIpConfiguration", "Network Interface %s must have one or more IP configurations.", id)
	}
	if old != nil && old.deleting {
		return nil, refuse(409, "Canceled", "Operation was canceled: network interface %s is being deleted.", id)
	}
	for i, config := range body.Properties.IPConfigurations {
		if config.Properties == nil || config.Properties.Subnet == nil {
			return nil, refuse(400, "SubnetRequired", "IP configuration of %s must reference a subnet.", id)
		}
		if wanted := value(config.Properties.Subnet.ID); !isSubnet(wanted) {
			return nil, missingReference(wanted, id)
		}
		if public := config.Properties.PublicIPAddress; public != nil {
			found := c.addresses[keyOf(value(public.ID))]
			if found == nil {
				return nil, missingReference(value(public.ID), id)
			}
			user := found.Properties.IPConfiguration
			own := id + "/ipConfigurations/" + value(config.Name)
			if user != nil && !strings.EqualFold(*user.ID, own) {
				return nil, refuse(400, "PublicIPAddressInUse", "Resource %s is referencing public IP address %s that is already allocated to resource %s.",
					own, value(public.ID), *user.ID)
			}
		}
		if i == 0 {
			config.Properties.Primary = to.Ptr(true)
		}
	}
	made := &nic{Interface: body, visibleAt: c.now.faults.visibleAt()}
	made.ID, made.Name, made.Type, made.Etag = &id, &name, to.Ptr(nicKind), to.Ptr(`W/"`+newID()+`"`)
	made.Properties.ResourceGUID = to.Ptr(newID())
	made.Properties.NicType = to.Ptr(armnetwork.NetworkInterfaceNicTypeStandard)
	for _, config := range made.Properties.IPConfigurations {
		config.ID = to.Ptr(id + "/ipConfigurations/" + value(config.Name))
		config.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateSucceeded)
		config.Properties.PrivateIPAllocationMethod = to.Ptr(armnetwork.IPAllocationMethodDynamic)
		if config.Properties.PrivateIPAddress == nil && old == nil {
			ip := c.takeIP()
			if ip == nil {
				return nil, refuse(400, "SubnetIsFull", "Subnet %s with address prefix %s does not have enough capacity for 1 IP addresses.", subnetName, c.subnetCIDR)
			}
			config.Properties.PrivateIPAddress = to.Ptr(ip.String())
		}
		if public := config.Properties.PublicIPAddress; public != nil {
			c.addresses[keyOf(*public.ID)].Properties.IPConfiguration = &armnetwork.IPConfiguration{ID: config.ID}
		}
	}
	if old != nil {
		made.visibleAt, made.reservedFor, made.reservedUntil = old.visibleAt, old.reservedFor, old.reservedUntil
		made.Properties.VirtualMachine, made.Properties.ResourceGUID = old.Properties.VirtualMachine, old.Properties.ResourceGUID
		for i, config := range made.Properties.IPConfigurations {
			if i < len(old.Properties.IPConfigurations) {
				config.Properties.PrivateIPAddress = old.Properties.IPConfigurations[i].Properties.PrivateIPAddress
			}
		}
	}
	made.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateUpdating)
	c.nics[keyOf(id)] = made
	c.now.created = old == nil
	c.start("network", c.timing.change, func() {
		made.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateSucceeded)
	}, made.fail)
	return made, nil
}

func missingReference(id, user string) *refusal {
	return refuse(400, "InvalidResourceReference", "Resource %s referenced by resource %s was not found. Please make sure that the "+
		"referenced resource exists, and that both resources are in the same region.", id, user)
}

func isSubnet(id string) bool {
	suffix := "/providers/microsoft.network/virtualnetworks/" + vnetName + "/subnets/" + subnetName
	return strings.HasSuffix(strings.ToLower(id), suffix) && groups[strings.ToLower(groupOf(id))]
}

// takeIP gives a new address while there is one, and else the one that was freed first.
func (c *cloud) takeIP() net.IP {
	ones, bits := c.subnetCIDR.Mask.Size()
	if c.nextIP < 1<<(bits-ones)-1 {
		ip := make(net.IP, 4)
		binary.BigEndian.PutUint32(ip, binary.BigEndian.Uint32(c.subnetCIDR.IP.To4())+c.nextIP)
		c.nextIP++
		return ip
	}
	if len(c.freed) == 0 {
		return nil
	}
	ip := c.freed[0]
	c.freed = c.freed[1:]
	return ip
}

// removeNIC also removes public addresses that are to go with it.
func (c *cloud) removeNIC(n *nic) {
	delete(c.nics, keyOf(*n.ID))
	for _, config := range n.Properties.IPConfigurations {
		if ip := net.ParseIP(value(config.Properties.PrivateIPAddress)); ip != nil {
			c.freed = append(c.freed, ip.To4())
		}
		if public := config.Properties.PublicIPAddress; public != nil {
			if found := c.addresses[keyOf(value(public.ID))]; found != nil {
				found.Properties.IPConfiguration = nil
			}
		}
	}
}

func (c *cloud) addressServer() *fake.PublicIPAddressesServer {
	return &fake.PublicIPAddressesServer{
		BeginCreateOrUpdate: func(_ context.Context, group, name string, body armnetwork.PublicIPAddress, _ *armnetwork.PublicIPAddressesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armnetwork.PublicIPAddressesClientCreateOrUpdateResponse], errResp azfake.ErrorResponder) {
			id := pathOf(group, addressKind, name)
			old := c.addresses[keyOf(id)]
			if body.Location == nil || !strings.EqualFold(*body.Location, location) {
				errResp.SetError(refuse(400, "LocationRequired", "The location property is required for this definition."))
				return
			}
			made := &address{PublicIPAddress: body, visibleAt: c.now.faults.visibleAt()}
			if made.Properties == nil {
				made.Properties = &armnetwork.PublicIPAddressPropertiesFormat{}
			}
			made.ID, made.Name, made.Type = &id, &name, to.Ptr(addressKind)
			if old != nil {
				made.visibleAt = old.visibleAt
				made.Properties.IPAddress, made.Properties.IPConfiguration = old.Properties.IPAddress, old.Properties.IPConfiguration
			} else {
				made.Properties.IPAddress = to.Ptr(fmt.Sprintf("192.0.2.%d", len(c.addresses)%250+1))
			}
			made.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateUpdating)
			c.addresses[keyOf(id)] = made
			c.now.created = old == nil
			c.start("network", c.timing.change, func() {
				made.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateSucceeded)
			}, func() { made.Properties.ProvisioningState = to.Ptr(armnetwork.ProvisioningStateFailed) })
			resp.SetTerminalResponse(200, armnetwork.PublicIPAddressesClientCreateOrUpdateResponse{PublicIPAddress: made.PublicIPAddress}, nil)
			return
		},
		BeginDelete: func(_ context.Context, group, name string, _ *armnetwork.PublicIPAddressesClientBeginDeleteOptions) (resp azfake.PollerResponder[armnetwork.PublicIPAddressesClientDeleteResponse], errResp azfake.ErrorResponder) {
			each := c.addresses[keyOf(pathOf(group, addressKind, name))]
			if each != nil {
				if user := each.Properties.IPConfiguration; user != nil {
					errResp.SetError(refuse(400, "PublicIPAddressCannotBeDeleted", "Public IP address %s can not be deleted since it is still "+
						"allocated to resource %s. In order to delete the public IP, disassociate/detach the Public IP address from the resource. "+
						"To learn how to do this, see aka.ms/deletepublicip.", *each.ID, *user.ID))
					return
				}
				c.start("network", c.timing.change, func() { delete(c.addresses, keyOf(*each.ID)) }, func() {})
			}
			resp.SetTerminalResponse(204, armnetwork.PublicIPAddressesClientDeleteResponse{}, nil)
			return
		},
		Get: func(_ context.Context, group, name string, _ *armnetwork.PublicIPAddressesClientGetOptions) (resp azfake.Responder[armnetwork.PublicIPAddressesClientGetResponse], errResp azfake.ErrorResponder) {
			if each := c.addresses[keyOf(pathOf(group, addressKind, name))]; each != nil {
				resp.SetResponse(200, armnetwork.PublicIPAddressesClientGetResponse{PublicIPAddress: each.PublicIPAddress}, nil)
			} else {
				errResp.SetError(notFound(addressKind, name, group))
			}
			return
		},
		NewListPager: func(group string, _ *armnetwork.PublicIPAddressesClientListOptions) (resp azfake.PagerResponder[armnetwork.PublicIPAddressesClientListResponse]) {
			items, next := page(c, c.addresses, group, addressKind, func(each *address) time.Time { return each.visibleAt })
			list := armnetwork.PublicIPAddressListResult{Value: []*armnetwork.PublicIPAddress{}, NextLink: next}
			for _, each := range items {
				list.Value = append(list.Value, &each.PublicIPAddress)
			}
			resp.AddPage(200, armnetwork.PublicIPAddressesClientListResponse{PublicIPAddressListResult: list}, nil)
			return
		},
		UpdateTags: func(_ context.Context, group, name string, body armnetwork.TagsObject, _ *armnetwork.PublicIPAddressesClientUpdateTagsOptions) (resp azfake.Responder[armnetwork.PublicIPAddressesClientUpdateTagsResponse], errResp azfake.ErrorResponder) {
			each := c.addresses[keyOf(pathOf(group, addressKind, name))]
			if each == nil {
				errResp.SetError(notFound(addressKind, name, group))
				return
			}
			each.Tags = body.Tags
			resp.SetResponse(200, armnetwork.PublicIPAddressesClientUpdateTagsResponse{PublicIPAddress: each.PublicIPAddress}, nil)
			return
		},
	}
}
