import { expect, it } from '@jest/globals';
import { withSwitchValues } from './flag-option.ts';

it.each([
  [
    ['get', '-A', 'machines'],
    ['get', '--all-namespaces=true', 'machines'],
  ],
  [
    ['get', '-Aw', 'machines'],
    ['get', '--all-namespaces=true', '--watch=true', 'machines'],
  ],
  [
    ['drain', '--force', 'false'],
    ['drain', '--force', 'false'],
  ],
  [
    ['drain', '--force', 'name', '-n', 'a'],
    ['drain', '--force=true', 'name', '-n', 'a'],
  ],
  [
    ['drain', '--force=false', 'name'],
    ['drain', '--force=false', 'name'],
  ],
  [
    ['get', '-owide', '--', '-A'],
    ['get', '-owide', '--', '-A'],
  ],
  [
    ['get', '--dry-run', '-Aw'],
    ['get', '--dry-run', '--all-namespaces=true', '--watch=true'],
  ],
])('gives the switches of %j that the command takes a value', (given, args) => {
  expect(withSwitchValues(given, ['namespace', 'allNamespaces', 'watch', 'force', 'output'])).toEqual(args);
});
