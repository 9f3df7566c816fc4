package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The client of the simulated cloud. For another cloud, replace this file, and what provider.go reads of its resources.

const uidTag = "millwright.dev/machine-uid"

// Codes of the cloud, as codes of Millwright. Any other is Unknown.
var codes = map[string]string{
	"Unauthorized":         "Unauthenticated",
	"Forbidden":            "PermissionDenied",
	"InvalidParameter":     "InvalidArgument",
	"InsufficientCapacity": "ResourceExhausted",
	"QuotaExceeded":        "ResourceExhausted",
	"Throttled":            "Unavailable",
	"ServiceUnavailable":   "Unavailable",
}

// Spec is the providerSpec of a class.
type Spec struct {
	Endpoint    string            `json:"endpoint"`
	MachineType string            `json:"machineType"`
	Region      string            `json:"region"`
	Tags        map[string]string `json:"tags"`
	Labels      map[string]string `json:"labels"`
	Taints      []json.RawMessage `json:"taints"`
}

// Resource is a VM, disk, NIC or address of the cloud.
type Resource struct {
	ID        string            `json:"id"`
	Kind      string            `json:"kind"`
	Name      string            `json:"name"`
	Region    string            `json:"region"`
	State     string            `json:"state"`
	CreatedAt string            `json:"createdAt"`
	Tags      map[string]string `json:"tags"`
	VM        string            `json:"vm"` // of a part
	Addresses []VMAddress       `json:"addresses"`
}

func (r Resource) isVM() bool { return r.Kind == "vm" }

func (r Resource) isAlive() bool { return r.State == "creating" || r.State == "running" }

func (r Resource) providerID() string { return "simulated:///" + r.Region + "/" + r.ID }

// Page is an answer of the cloud to a list.
type Page struct {
	Items    []Resource `json:"items"`
	NextPage string     `json:"nextPage"`
}

// Cloud sends requests with the credentials of one call.
type Cloud struct {
	endpoint string
	token    string
	client   *http.Client
	secrets  []string // values that no text may have, the longest first
}

// Shorter values, bytes, are not hidden: each would be found in many words.
const shortestSecret = 4

// hide keeps the values of a Secret out of what the failures of this call quote.
func (c *Cloud) hide(keys map[string]string) {
	for _, value := range keys {
		if value = strings.TrimSpace(value); len(value) >= shortestSecret {
			c.secrets = append(c.secrets, value)
		}
	}
	slices.SortFunc(c.secrets, func(a, b string) int { return len(b) - len(a) }) // a short one may be a part of a long one
}

// hidden answers a text of the cloud without secrets: some clouds quote what they refuse.
func (c *Cloud) hidden(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "(hidden)")
	}
	return text
}

var errAbsent = errors.New("there is no such resource")

// call sends a request and reads the answer. Fails with errAbsent if the path names a resource that does not exist.
func (c *Cloud) call(ctx context.Context, method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, sent)
	if err != nil {
		return failed("InvalidArgument", "providerSpec.endpoint is %q: give an http or https URL", c.endpoint)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return c.unanswered(request, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return c.unanswered(request, err)
	}
	if response.StatusCode == http.StatusNotFound && strings.Count(path, "/") > 2 {
		return errAbsent
	}
	if response.StatusCode >= 300 {
		return c.refused(response, text)
	}
	if answer != nil && json.Unmarshal(text, answer) != nil {
		return failed("Unknown", "%s answered %d bytes that are no JSON of the cloud", request.URL.Host, len(text))
	}
	return nil
}

// unanswered: nobody knows whether the request had its effect, unless it was never sent. Unavailable says just that.
func (c *Cloud) unanswered(request *http.Request, err error) *Failure {
	failure := failed("Unavailable", "%s does not answer", request.URL.Host)
	var lookup *net.DNSError
	failure.Details.NothingMade = errors.As(err, &lookup)
	return failure
}

func (c *Cloud) refused(response *http.Response, text []byte) *Failure {
	var answer struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	_ = json.Unmarshal(text, &answer)
	// A class names the server, which may be any: only an error of the cloud is quoted.
	message := fmt.Sprintf("the answer is not in the cloud's format (%d bytes)", len(text))
	if answer.Error.Code != "" {
		message = c.hidden(answer.Error.Message)
	}
	code, isKnown := codes[answer.Error.Code]
	if !isKnown {
		code = "Unknown"
	}
	failure := failed(code, "%s answered %d: %s", response.Request.URL.Host, response.StatusCode, message)
	failure.Details.CloudCode = c.hidden(answer.Error.Code)
	failure.Details.RequestID = c.hidden(response.Header.Get("X-Request-Id"))
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		failure.Details.RetryAfterMs = int64(seconds) * 1000
	}
	return failure
}

// list answers one page of everything with these tags.
func (c *Cloud) list(ctx context.Context, tags map[string]string, page string) (Page, error) {
	query := url.Values{}
	for key, value := range tags {
		query.Add("tag", key+"="+value)
	}
	if page != "" {
		query.Set("page", page)
	}
	var answer Page
	err := c.call(ctx, http.MethodGet, "/v1/resources?"+query.Encode(), nil, &answer)
	return answer, err
}

// listAll answers everything with these tags, oldest first.
func (c *Cloud) listAll(ctx context.Context, tags map[string]string) ([]Resource, error) {
	var all []Resource
	for page := ""; ; {
		answer, err := c.list(ctx, tags, page)
		if err != nil {
			return nil, err
		}
		all = append(all, answer.Items...)
		if page = answer.NextPage; page == "" {
			return all, nil
		}
	}
}

// withParts answers a VM and what was made with it; nothing if it does not exist.
func (c *Cloud) withParts(ctx context.Context, id string) ([]Resource, error) {
	var answer Page
	err := c.call(ctx, http.MethodGet, "/v1/resources?vm="+url.QueryEscape(id), nil, &answer)
	return answer.Items, err
}

// get fails with errAbsent if there is no such resource.
func (c *Cloud) get(ctx context.Context, kind, id string) (Resource, error) {
	var answer Resource
	err := c.call(ctx, http.MethodGet, pathOf(kind, id), nil, &answer)
	return answer, err
}

// delete asks for a deletion. Succeeds if there is no such resource.
func (c *Cloud) delete(ctx context.Context, resource Resource) error {
	err := c.call(ctx, http.MethodDelete, pathOf(resource.Kind, resource.ID), nil, nil)
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

func pathOf(kind, id string) string { return "/v1/" + kind + "s/" + url.PathEscape(id) }
