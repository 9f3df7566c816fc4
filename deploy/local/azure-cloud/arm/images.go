package main

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
)

func (c *cloud) imageServer() *fake.VirtualMachineImagesServer {
	return &fake.VirtualMachineImagesServer{
		Get: func(_ context.Context, place, publisher, offer, sku, version string, _ *armcompute.VirtualMachineImagesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachineImagesClientGetResponse], errResp azfake.ErrorResponder) {
			plan, found := images[strings.ToLower(strings.Join([]string{publisher, offer, sku, version}, ":"))]
			if !found {
				errResp.SetError(refuse(404, "NotFound", "Artifact: VMImage was not found."))
				return
			}
			image := armcompute.VirtualMachineImage{
				Location: &place, Name: &version,
				ID: to.Ptr("/Subscriptions/" + subscription + "/Providers/Microsoft.Compute/Locations/" + place + "/Publishers/" + publisher +
					"/ArtifactTypes/VMImage/Offers/" + offer + "/Skus/" + sku + "/Versions/" + version),
				Properties: &armcompute.VirtualMachineImageProperties{
					HyperVGeneration: to.Ptr(armcompute.HyperVGenerationTypesV2),
					Architecture:     to.Ptr(armcompute.ArchitectureTypesX64),
					OSDiskImage:      &armcompute.OSDiskImage{OperatingSystem: to.Ptr(armcompute.OperatingSystemTypesLinux)},
				},
			}
			if plan != "" {
				image.Properties.Plan = &armcompute.PurchasePlan{Name: &plan, Product: &offer, Publisher: &publisher}
			}
			resp.SetResponse(200, armcompute.VirtualMachineImagesClientGetResponse{VirtualMachineImage: image}, nil)
			return
		},
		List: func(_ context.Context, place, publisher, offer, sku string, _ *armcompute.VirtualMachineImagesClientListOptions) (resp azfake.Responder[armcompute.VirtualMachineImagesClientListResponse], errResp azfake.ErrorResponder) {
			prefix := strings.ToLower(strings.Join([]string{publisher, offer, sku}, ":")) + ":"
			versions := []*armcompute.VirtualMachineImageResource{}
			for urn := range images {
				if version, found := strings.CutPrefix(urn, prefix); found {
					versions = append(versions, &armcompute.VirtualMachineImageResource{Location: &place, Name: &version})
				}
			}
			resp.SetResponse(200, armcompute.VirtualMachineImagesClientListResponse{VirtualMachineImageResourceArray: versions}, nil)
			return
		},
	}
}

var agreementPath = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/providers/microsoft\.marketplaceordering/offerTypes/virtualmachine/publishers/([^/]+)/offers/([^/]+)/plans/([^/]+)/agreements/current$`)

func planKey(publisher, offer, plan string) string {
	return strings.ToLower(publisher + "/" + offer + "/" + plan)
}

// serveAgreement reads and accepts the terms of a plan. There is no codec for these.
func (c *cloud) serveAgreement(w http.ResponseWriter, r *http.Request, body []byte, publisher, offer, plan string) *refusal {
	key := planKey(publisher, offer, plan)
	exists := false
	for urn, of := range images {
		parts := strings.Split(urn, ":")
		exists = exists || of != "" && planKey(parts[0], parts[1], of) == key
	}
	if !exists {
		return refuse(400, "BadRequest", "Unable to find terms for publisher '%s', offer '%s', plan '%s'.", publisher, offer, plan)
	}
	switch r.Method {
	case http.MethodPut:
		var terms struct {
			Properties struct {
				Accepted  bool   `json:"accepted"`
				Signature string `json:"signature"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(body, &terms); err != nil {
			return refuse(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized: '%s'.", err)
		}
		if terms.Properties.Signature != signatureOf(key) {
			return refuse(400, "BadRequest", "The signature of the terms is not valid.")
		}
		c.accepted[key] = terms.Properties.Accepted
	case http.MethodGet:
	default:
		return refuse(405, "MethodNotAllowed", "The requested resource does not support http method '%s'.", r.Method)
	}
	writeJSON(w, 200, map[string]any{
		"id":   r.URL.Path,
		"name": plan, "type": "Microsoft.MarketplaceOrdering/offertypes/publishers/offers/plans/agreements",
		"properties": map[string]any{
			"publisher": publisher, "product": offer, "plan": plan, "accepted": c.accepted[key], "signature": signatureOf(key),
			"licenseTextLink": "https://example.com/license", "privacyPolicyLink": "https://example.com/privacy",
			"marketplaceTermsLink": "https://example.com/terms", "retrieveDatetime": "2026-01-01T00:00:00Z",
		},
	})
	return nil
}

func signatureOf(key string) string {
	return "SIGNATURE" + strings.ToUpper(strings.ReplaceAll(key, "/", ""))
}

// checkImage refuses an image that there is not, and one whose plan is not named or not accepted.
func (c *cloud) checkImage(image *armcompute.ImageReference, plan *armcompute.Plan, vmID string) *refusal {
	for _, id := range []*string{image.ID, image.CommunityGalleryImageID, image.SharedGalleryImageID} {
		if id != nil {
			if references[strings.ToLower(*id)] {
				return nil
			}
			return refuse(404, "GalleryImageNotFound", "The gallery image %s is not available in %s region. "+
				"Please contact image owner to replicate to this region, or change your requested region.", *id, location)
		}
	}
	publisher, offer, sku, version := value(image.Publisher), value(image.Offer), value(image.SKU), value(image.Version)
	needed, found := "", false
	for urn, of := range images {
		prefix := strings.ToLower(strings.Join([]string{publisher, offer, sku}, ":")) + ":"
		if strings.HasPrefix(urn, prefix) && (strings.EqualFold(version, "latest") || urn == prefix+strings.ToLower(version)) {
			needed, found = of, true
		}
	}
	if !found {
		return refuse(404, "PlatformImageNotFound", "The platform image '%s:%s:%s:%s' is not available. "+
			"Verify that all fields in the storage profile are correct. For more details about storage profile information, "+
			"please refer to https://aka.ms/storageprofile", publisher, offer, sku, version)
	}
	if needed == "" {
		return nil
	}
	if plan == nil {
		return refuse(400, "VMMarketplaceInvalidInput", "Creating a virtual machine from Marketplace image or a custom image sourced "+
			"from a Marketplace image requires Plan information in the request. VM: '%s'.", vmID)
	}
	if !c.accepted[planKey(value(plan.Publisher), value(plan.Product), value(plan.Name))] {
		return refuse(400, "MarketplacePurchaseEligibilityFailed", "User failed validation to purchase resources. Error message: 'You "+
			"have not accepted the legal terms on this subscription: '%s' for this plan. Before the subscription can be used, you need "+
			"to accept the legal terms of the image. Offer details: publisher='%s' offer = '%s', sku = '%s'.'",
			subscription, value(plan.Publisher), value(plan.Product), value(plan.Name))
	}
	return nil
}
