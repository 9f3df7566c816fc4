/** Commands of the documentation that commands.test.ts does not run: which test does, or why none can. */

/** `testedBy`: the file that does the same in a test. `notRun`: why no test does, and what is tested in its place. */
export type Elsewhere = { readonly testedBy: string } | { readonly notRun: string };

/** By document, by how the commands begin. */
export const elsewhere: Readonly<Record<string, Readonly<Record<string, Elsewhere>>>> = {
  'README.md': {
    'npm run demo': { testedBy: 'test/run.ts' },
  },
  'deploy/examples/go-provider/README.md': {
    'make test': { testedBy: 'test/end-to-end/conformance-go.long.test.ts' },
    kubectl: { testedBy: 'test/support/provider-account.ts' },
    export: { testedBy: 'test/support/provider-account.ts' },
    docker: {
      notRun: 'the tests have no container engine; deploy/examples.test.ts looks for the files that are copied',
    },
    'go run': { testedBy: 'test/end-to-end/conformance-go.long.test.ts' },
  },
  'deploy/examples/python-provider/README.md': {
    'make test': { testedBy: 'test/end-to-end/conformance-python.test.ts' },
    docker: {
      notRun: 'the tests have no container engine; deploy/examples.test.ts looks for the files that are copied',
    },
    'python3 -m venv': { testedBy: 'test/support/python-provider.ts' },
    '/tmp/python-provider/bin/pip': { testedBy: 'test/support/python-provider.ts' },
    kubectl: { testedBy: 'test/support/provider-account.ts' },
    export: { testedBy: 'test/support/provider-account.ts' },
    '/tmp/python-provider/bin/python': { testedBy: 'test/end-to-end/python-provider.test.ts' },
    'npm run conformance': { testedBy: 'test/end-to-end/conformance.test.ts' },
  },
  'deploy/local/aws-cloud/README.md': {
    'npx node': { testedBy: 'deploy/local/aws-cloud/cloud.test.ts' },
    'AWS_ENDPOINT_URL=': { notRun: 'the tests have no AWS CLI; they use the same addresses with the SDK of AWS' },
    curl: { testedBy: 'deploy/local/aws-cloud/cloud.test.ts' },
  },
  'deploy/local/azure-cloud/README.md': {
    'npx node': { testedBy: 'deploy/local/azure-cloud/cloud.test.ts' },
    curl: { testedBy: 'deploy/local/azure-cloud/cloud.test.ts' },
  },
  'deploy/local/openstack-cloud/README.md': {
    'npx node': { testedBy: 'deploy/local/openstack-cloud/cloud.test.ts' },
    curl: { testedBy: 'deploy/local/openstack-cloud/cloud.test.ts' },
  },
  'deploy/local/simulated-cloud/README.md': {
    'npx node': { testedBy: 'deploy/local/simulated-cloud/cloud.test.ts' },
  },
  'docs/how-to/connect-to-temporal.md': {
    'kubectl create': { notRun: 'it prepares the next command' },
    helm: {
      notRun: 'the tests do not fetch the chart of Temporal; test/support/postgresql.ts runs a server with its values',
    },
    export: { testedBy: 'test/support/postgresql.ts' },
    'temporal-sql-tool': { testedBy: 'test/support/postgresql.ts' },
    'temporal operator namespace': { testedBy: 'test/support/postgresql.ts' },
  },
  'docs/how-to/delete.md': {
    'kubectl label machines.machine.sapcloud.io --all': { testedBy: 'test/end-to-end/lost-target.test.ts' },
    'kubectl delete machinedeployments.machine.sapcloud.io': { testedBy: 'test/end-to-end/lost-target.test.ts' },
  },
  'docs/how-to/encrypt-payloads.md': {
    'kubectl create secret': { testedBy: 'cli/data-converter.test.ts' },
    'kubectl patch secret': { testedBy: 'test/end-to-end/encrypted-payloads.test.ts' },
    'millwright codec-server': { testedBy: 'test/end-to-end/encrypted-payloads.test.ts' },
  },
  'docs/how-to/find-out-why.md': {
    'millwright drain': { testedBy: 'test/end-to-end/stuck.test.ts' },
    'kubectl --namespace millwright port-forward': { notRun: 'there is no kubelet that forwards a port' },
  },
  'docs/how-to/install.md': {
    'npm pack': { testedBy: 'test/end-to-end/image.long.test.ts' },
    docker: { notRun: 'there is no container engine; test/end-to-end/image.long.test.ts takes the steps of the file' },
    helm: { testedBy: 'deploy/chart.test.ts' },
  },
  'docs/how-to/migrate-from-mcm.md': {
    'millwright run': { testedBy: 'test/end-to-end/takeover.test.ts' },
  },
  'docs/how-to/orphan-sweep.md': {
    'millwright sweep approve': { testedBy: 'test/end-to-end/brake.test.ts' },
  },
  'docs/how-to/rights.md': {
    helm: { testedBy: 'test/end-to-end/admission-policy.test.ts' },
  },
  'docs/how-to/rollouts.md': {
    'millwright replay': { testedBy: 'test/end-to-end/history-of-runs.long.test.ts' },
  },
  'docs/how-to/run-by-hand.md': {
    'npm run stack': { testedBy: 'deploy/local/stack.test.ts' },
    'npx node': { testedBy: 'deploy/local/simulated-cloud/cloud.test.ts' },
    'npm run millwright': { testedBy: 'test/end-to-end/process.test.ts' },
    'kubectl apply': { testedBy: 'deploy/local/demo/tour.ts' },
    'kubectl get machines --watch': { notRun: 'it does not end; test/end-to-end/stuck.test.ts lists machines' },
  },
  'docs/how-to/unhealthy-machines.md': {
    'millwright drain': { testedBy: 'test/end-to-end/stuck.test.ts' },
  },
  'docs/how-to/uninstall.md': {
    'kubectl delete': { testedBy: 'test/end-to-end/class-deletion.test.ts' },
    'millwright uninstall': { testedBy: 'test/end-to-end/uninstall.test.ts' },
  },
  // tutorial.test.ts compares it with the tour.
  'docs/tutorial.md': { '': { testedBy: 'deploy/local/demo/tour.ts' } },
  'docs/how-to/provider-in-other-languages.md': {
    'npm run demo': { testedBy: 'deploy/local/demo/own-provider.test.ts' },
  },
  'docs/providers.md': {
    'npm run demo': { testedBy: 'deploy/local/demo/own-provider.test.ts' },
    'npm run conformance': { testedBy: 'test/end-to-end/conformance.test.ts' },
  },
  'docs/providers/openstack.md': {
    'millwright run': { testedBy: 'test/end-to-end/openstack.test.ts' },
    'openstack application credential': {
      notRun: 'the tests have no OpenStack CLI; test/end-to-end/openstack.test.ts compares the file with the requests',
    },
  },
  'docs/providers/azure.md': {
    'millwright run': { testedBy: 'test/end-to-end/azure.test.ts' },
  },
  'docs/providers/aws.md': {
    'millwright run': { testedBy: 'test/end-to-end/aws.test.ts' },
    'AWS_ENDPOINT_URL=': { notRun: 'the tests have no AWS CLI; they use the same addresses with the SDK of AWS' },
  },
};
