package main

import (
	"net/url"
	"sort"
	"strings"
	"time"
)

// Everything in a resource group has a path, by which it is found whatever its letters' case.
func pathOf(group, kind, name string) string {
	return "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/" + kind + "/" + name
}

func keyOf(id string) string { return strings.ToLower(id) }

// page cuts what there is of a kind in a group, in the order of the names: later pages go on after the last name.
func page[T any](c *cloud, all map[string]T, group, kind string, visibleAt func(T) time.Time) (items []T, nextLink *string) {
	prefix := keyOf(pathOf(group, kind, ""))
	var keys []string
	for key, each := range all {
		if !strings.HasPrefix(key, prefix) || key <= c.now.skipToken {
			continue
		}
		if c.now.seesAll || !time.Now().Before(visibleAt(each)) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	size := c.pageSize
	if c.now.seesAll {
		size = len(keys)
	}
	for i, key := range keys {
		if i == size {
			query := url.Values{"api-version": {c.now.apiVersion}, "$skiptoken": {keys[i-1]}}
			link := c.now.base + strings.TrimSuffix(pathOf(group, kind, ""), "/") + "?" + query.Encode()
			return items, &link
		}
		items = append(items, all[key])
	}
	return items, nil
}

// lastOf is the name in the path of a resource.
func lastOf(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// groupOf is the resource group in the path of a resource.
func groupOf(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 5 {
		return ""
	}
	return parts[4]
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
