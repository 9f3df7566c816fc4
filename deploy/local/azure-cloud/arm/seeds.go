package main

import "strings"

// What is in the cloud from the start.
const (
	subscription  = "5f0e6c3a-1d2b-4c8e-9a7f-000000000001"
	location      = "westeurope"
	resourceGroup = "machines"
	vnetName      = "nodes"
	subnetName    = "nodes"
)

const groupPath = "/subscriptions/" + subscription + "/resourceGroups/" + resourceGroup

var (
	zones  = []string{"1", "2", "3"}
	groups = map[string]bool{resourceGroup: true, "network": true}
	// cores of the sizes that there are.
	cores = map[string]int{
		"standard_d2s_v5": 2, "standard_d4s_v5": 4, "standard_d8s_v5": 8, "standard_b2s": 2, "standard_d2ps_v5": 2,
		"standard_dc2as_v5": 2,
	}
	// plans of the images of the marketplace, by publisher, offer, SKU and version. An empty one has no terms.
	images = map[string]string{
		"canonical:ubuntu-24_04-lts:server:24.04.202501010":    "",
		"kinvolk:flatcar-container-linux-free:stable:4081.2.0": "stable",
		"kinvolk:flatcar-container-linux:stable:4081.2.0":      "stable",
	}
	// references are resources that a VM or disk may name, in lower case, and that nothing else is known of.
	references = lowered(
		groupPath+"/providers/Microsoft.Compute/images/nodes",
		groupPath+"/providers/Microsoft.Compute/galleries/nodes/images/linux/versions/1.0.0",
		"/CommunityGalleries/nodes/Images/linux/Versions/1.0.0",
		"/SharedGalleries/nodes/Images/linux/Versions/1.0.0",
		groupPath+"/providers/Microsoft.Compute/availabilitySets/nodes",
		groupPath+"/providers/Microsoft.Compute/virtualMachineScaleSets/nodes",
		groupPath+"/providers/Microsoft.Compute/capacityReservationGroups/nodes",
		groupPath+"/providers/Microsoft.ManagedIdentity/userAssignedIdentities/nodes",
	)
)

func lowered(ids ...string) map[string]bool {
	known := map[string]bool{}
	for _, id := range ids {
		known[strings.ToLower(id)] = true
	}
	return known
}
