// Serves the resources of Azure Resource Manager (ARM) that machines need, with their state, to the front of the Azure cloud
// alone: without credentials and TLS. Microsoft's own server-side codec reads the requests and writes the answers. Prints a
// line of JSON when it serves, and one for each VM that starts or ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	compute "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	network "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9/fake"
)

// A cloud is the state of everything. All of it is guarded by mu, also while the codec works.
type cloud struct {
	mu         sync.Mutex
	timing     timing
	pageSize   int
	retryAfter string
	subnetCIDR *net.IPNet
	freed      []net.IP
	nextIP     uint32
	vms        map[string]*vm
	disks      map[string]*disk
	nics       map[string]*nic
	addresses  map[string]*address
	accepted   map[string]bool // plans whose terms were accepted
	operations map[string]*operation
	codecs     map[string]transport
	now        request
}

type timing struct {
	boot, delete, change, reservation time.Duration
}

// A request is the one that is being served.
type request struct {
	method     string
	base       string // before the path in links to the cloud
	apiVersion string
	skipToken  string
	faults     faults
	seesAll    bool
	operation  *operation
	created    bool
}

type transport interface {
	Do(*http.Request) (*http.Response, error)
}

// A route is a request that the codec knows by its method of the client.
type route struct {
	method, pattern, client string
	regex                   *regexp.Regexp
}

const inGroup = "/subscriptions/*/resourcegroups/*/providers/"

var routes = compile(
	resource("microsoft.compute/virtualmachines", "VirtualMachinesClient", "PUT BeginCreateOrUpdate", "PATCH BeginUpdate", "DELETE BeginDelete", "GET Get"),
	resource("microsoft.compute/disks", "DisksClient", "PUT BeginCreateOrUpdate", "PATCH BeginUpdate", "DELETE BeginDelete", "GET Get"),
	resource("microsoft.network/networkinterfaces", "InterfacesClient", "PUT BeginCreateOrUpdate", "PATCH UpdateTags", "DELETE BeginDelete", "GET Get"),
	resource("microsoft.network/publicipaddresses", "PublicIPAddressesClient", "PUT BeginCreateOrUpdate", "PATCH UpdateTags", "DELETE BeginDelete", "GET Get"),
	[]route{
		{method: "GET", pattern: inGroup + "microsoft.compute/virtualmachines/*/instanceview", client: "VirtualMachinesClient.InstanceView"},
		{method: "GET", pattern: inGroup + "microsoft.compute/virtualmachines", client: "VirtualMachinesClient.NewListPager"},
		{method: "GET", pattern: inGroup + "microsoft.compute/disks", client: "DisksClient.NewListByResourceGroupPager"},
		{method: "GET", pattern: inGroup + "microsoft.network/networkinterfaces", client: "InterfacesClient.NewListPager"},
		{method: "GET", pattern: inGroup + "microsoft.network/publicipaddresses", client: "PublicIPAddressesClient.NewListPager"},
		{method: "GET", pattern: inGroup + "microsoft.network/virtualnetworks/*", client: "VirtualNetworksClient.Get"},
		{method: "GET", pattern: inGroup + "microsoft.network/virtualnetworks/*/subnets/*", client: "SubnetsClient.Get"},
		{method: "GET", pattern: imagePath + "/versions", client: "VirtualMachineImagesClient.List"},
		{method: "GET", pattern: imagePath + "/versions/*", client: "VirtualMachineImagesClient.Get"},
	},
)

const imagePath = "/subscriptions/*/providers/microsoft.compute/locations/*/publishers/*/artifacttypes/vmimage/offers/*/skus/*"

func resource(kind, client string, methods ...string) []route {
	var made []route
	for _, each := range methods {
		method, name, _ := strings.Cut(each, " ")
		made = append(made, route{method: method, pattern: inGroup + kind + "/*", client: client + "." + name})
	}
	return made
}

func compile(lists ...[]route) []route {
	var all []route
	for _, list := range lists {
		for _, each := range list {
			each.regex = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(each.pattern), `\*`, "[^/]+") + "$")
			all = append(all, each)
		}
	}
	return all
}

func main() {
	bootMs := flag.Int("boot-ms", 1000, "from the creation of a VM to its end")
	deleteMs := flag.Int("delete-ms", 500, "from the deletion of a VM to its end")
	changeMs := flag.Int("change-ms", 100, "how long any other operation takes")
	reservationMs := flag.Int("nic-reservation-ms", 180_000, "how long a NIC is kept for its VM after a failed creation")
	pageSize := flag.Int("page-size", 50, "resources in a page of a list")
	retryAfter := flag.Int("retry-after-seconds", 1, "that clients are asked to wait between two looks at an operation")
	cidr := flag.String("subnet", "10.240.0.0/23", "of the subnet")
	flag.Parse()
	_, subnetCIDR, err := net.ParseCIDR(*cidr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ms := func(n *int) time.Duration { return time.Duration(*n) * time.Millisecond }
	c := &cloud{
		timing:     timing{boot: ms(bootMs), delete: ms(deleteMs), change: ms(changeMs), reservation: ms(reservationMs)},
		pageSize:   *pageSize,
		retryAfter: strconv.Itoa(*retryAfter),
		subnetCIDR: subnetCIDR,
		nextIP:     4, // Azure keeps the first four addresses of a subnet
		vms:        map[string]*vm{},
		disks:      map[string]*disk{},
		nics:       map[string]*nic{},
		addresses:  map[string]*address{},
		accepted:   map[string]bool{},
		operations: map[string]*operation{},
	}
	c.codecs = map[string]transport{
		"VirtualMachinesClient":      compute.NewVirtualMachinesServerTransport(c.vmServer()),
		"DisksClient":                compute.NewDisksServerTransport(c.diskServer()),
		"VirtualMachineImagesClient": compute.NewVirtualMachineImagesServerTransport(c.imageServer()),
		"InterfacesClient":           network.NewInterfacesServerTransport(c.nicServer()),
		"PublicIPAddressesClient":    network.NewPublicIPAddressesServerTransport(c.addressServer()),
		"SubnetsClient":              network.NewSubnetsServerTransport(c.subnetServer()),
		"VirtualNetworksClient":      network.NewVirtualNetworksServerTransport(c.networkServer()),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	report(map[string]any{"url": "http://" + listener.Addr().String(), "seeds": c.seeds()})
	fmt.Fprintln(os.Stderr, http.Serve(listener, c))
	os.Exit(1)
}

// report writes a line for the process that has started this one.
func report(line any) {
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

func (c *cloud) seeds() map[string]any {
	var sizes, urns, ids []string
	for size := range cores {
		sizes = append(sizes, size)
	}
	for urn := range images {
		urns = append(urns, urn)
	}
	for id := range references {
		ids = append(ids, id)
	}
	return map[string]any{
		"subscriptionId": subscription, "location": location, "zones": zones, "resourceGroup": resourceGroup,
		"vnetName": vnetName, "subnetName": subnetName, "subnetPrefix": c.subnetCIDR.String(),
		"sizes": sizes, "images": urns, "references": ids,
	}
}

var operationPath = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/providers/microsoft\.(?:compute|network)/locations/[^/]+/(operations|operationresults|diskoperations)/([^/]+)$`)

// ServeHTTP serves one request after the other: the codec remembers pages and operations by the path alone.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = request{
		method: r.Method, base: r.Header.Get("Cloud-Base"), apiVersion: r.URL.Query().Get("api-version"),
		skipToken: r.URL.Query().Get("$skiptoken"), seesAll: r.Header.Get("Cloud-Sees-All") != "",
	}
	if text := r.Header.Get("Cloud-Faults"); text != "" {
		if err := json.Unmarshal([]byte(text), &c.now.faults); err != nil {
			refuse(400, "Cloud-Faults", "%s", err).write(w)
			return
		}
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if err := c.serve(w, r, body); err != nil {
		err.write(w)
	}
}

func (c *cloud) serve(w http.ResponseWriter, r *http.Request, body []byte) *refusal {
	path := strings.ToLower(r.URL.Path)
	if r.URL.Path == "/" && r.Method == http.MethodDelete {
		c.reset()
		w.WriteHeader(204)
		return nil
	}
	if c.now.apiVersion == "" {
		return refuse(400, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
	}
	parts := strings.Split(path, "/")
	if len(parts) < 3 || parts[1] != "subscriptions" {
		return refuse(404, "InvalidResourceType", "There is no resource at %s.", r.URL.Path)
	}
	if parts[2] != subscription {
		return refuse(404, "SubscriptionNotFound", "The subscription '%s' could not be found.", parts[2])
	}
	if len(parts) > 4 && parts[3] == "resourcegroups" && !groups[parts[4]] {
		return refuse(404, "ResourceGroupNotFound", "Resource group '%s' could not be found.", strings.Split(r.URL.Path, "/")[4])
	}
	if err := checkTags(body); err != nil {
		return err
	}
	if match := operationPath.FindStringSubmatch(r.URL.Path); match != nil && r.Method == http.MethodGet {
		isResult := strings.EqualFold(match[1], "operationResults") || r.URL.Query().Has("monitor")
		c.serveOperation(w, match[2], isResult)
		return nil
	}
	if match := agreementPath.FindStringSubmatch(r.URL.Path); match != nil {
		return c.serveAgreement(w, r, body, match[1], match[2], match[3])
	}
	for _, each := range routes {
		if each.method == r.Method && each.regex.MatchString(path) {
			return c.dispatch(w, r, each.client)
		}
	}
	return refuse(404, "InvalidResourceType", "This cloud does not serve %s %s.", r.Method, r.URL.Path)
}

// checkTags refuses names of tags that Azure does not take, whatever the resource is.
func checkTags(body []byte) *refusal {
	var tagged struct {
		Tags map[string]json.RawMessage `json:"tags"`
	}
	if json.Unmarshal(body, &tagged) != nil {
		return nil // the codec says so
	}
	for name := range tagged.Tags {
		if strings.ContainsAny(name, `<>%&\?/`) {
			return refuse(400, "InvalidTagNameCharacters", "The tag names '%s' have reserved characters '<,>,%%,&,\\,?,/' or control characters.", name)
		}
		if len(name) > 512 {
			return refuse(400, "InvalidTagName", "The tag name '%s' is longer than 512 characters.", name)
		}
	}
	if len(tagged.Tags) > 50 {
		return refuse(400, "InvalidTags", "A resource may have 50 tags, and not %d.", len(tagged.Tags))
	}
	return nil
}

// dispatch has the codec call the method of a client, and adds what real operations have.
func (c *cloud) dispatch(w http.ResponseWriter, r *http.Request, method string) *refusal {
	client, _, _ := strings.Cut(method, ".")
	ctx := context.WithValue(r.Context(), runtime.CtxAPINameKey{}, method)
	answer, err := c.codecs[client].Do(r.WithContext(ctx))
	if err != nil {
		var refused *refusal
		if errors.As(err, &refused) {
			return refused
		}
		return refuse(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized: '%s'.", err)
	}
	body, _ := io.ReadAll(answer.Body)
	status := answer.StatusCode
	if op := c.now.operation; op != nil {
		query := "?api-version=" + c.now.apiVersion
		w.Header().Set("Azure-AsyncOperation", c.now.base+op.statusPath+query)
		w.Header().Set("Azure-AsyncNotification", "Enabled")
		w.Header().Set("Retry-After", c.retryAfter)
		switch {
		case r.Method == http.MethodDelete:
			w.Header().Set("Location", c.now.base+op.resultPath+query+"&monitor=true")
			status, body = http.StatusAccepted, nil
		case client == "DisksClient":
			w.Header().Set("Location", c.now.base+op.resultPath+query+"&monitor=true")
			status = http.StatusAccepted
		case c.now.created:
			status = http.StatusCreated
		}
	}
	if len(body) > 0 && status != http.StatusNoContent {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	} else {
		body = nil
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// reset takes everything away that was made, at once.
func (c *cloud) reset() {
	for _, each := range c.vms {
		each.end()
	}
	c.vms, c.disks, c.nics, c.addresses = map[string]*vm{}, map[string]*disk{}, map[string]*nic{}, map[string]*address{}
	c.accepted, c.operations = map[string]bool{}, map[string]*operation{}
}
