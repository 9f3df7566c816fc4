import { expect, it } from '@jest/globals';
import { isAllowedHost } from './allowed-hosts.ts';

it.each([
  ['localhost:8080', 'kubectl port-forward'],
  ['127.0.0.1:10258', 'kubectl port-forward'],
  ['[::1]:10258', 'kubectl port-forward'],
  ['10.1.2.3:10258', 'the kubelet, and Prometheus that finds Pods'],
  ['[fd00::2]:10258', 'the same with IPv6'],
  ['10.1.2.3', 'a Service at port 80'],
  ['millwright-fleet', 'a Pod of the namespace'],
  ['millwright.millwright.svc:10258', 'a Pod'],
  ['Millwright.Millwright.SVC.cluster.local:10258', 'a Pod'],
  ['fleet.example.com', 'a proxy'],
  ['fleet.example.com:8443', 'a proxy at another port'],
  ['millwright.millwright.svc.cluster.local.:10258', 'a Pod that names the root'],
  [undefined, 'a health check with HTTP 1.0'],
] as const)('allows %s, as of %s', (host, _whose) => {
  expect(isAllowedHost(host, ['fleet.example.com'])).toBe(true);
});

it.each([
  'rebind.evil.example',
  'rebind.evil.example:10258',
  'evil.fleet.example.com',
  'fleet.example.com.evil.example',
  'localhost.evil.example',
  '127.0.0.1.evil.example:10258',
  'millwright.svc.evil.example',
  'millwright.millwright.svc.cluster.local.evil.example',
  '1.2.3.4.5',
  'rebind.evil.example.',
])('refuses %s', (host) => {
  expect(isAllowedHost(host, ['fleet.example.com'])).toBe(false);
});
