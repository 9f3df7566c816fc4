/** Every file of the repository that is made from code. `npm run generate` writes them, a test compares them. */
import { findTestTitles } from '../../test/acceptance/titles.ts';
import { acceptanceDoc } from './acceptance.ts';
import { apiDoc } from './api.ts';
import { chartDoc } from './chart.ts';
import { cliDoc } from './cli.ts';
import { conformanceDoc } from './conformance.ts';
import { crdFiles } from './crds.ts';
import { eventsDoc } from './events.ts';
import { failuresDoc } from './failures.ts';
import { metricsDoc } from './metrics.ts';
import { namesDoc } from './names.ts';
import { policyFiles } from './policy.ts';
import { providerContractDoc, providerContractSchema } from './provider-contract.ts';
import { providerSpecsDoc } from './provider-specs.ts';
import { rbacFiles } from './rbac.ts';
import { root } from './root.ts';
import { temporalDoc } from './temporal.ts';

/** Content by path from the root. Depends on the sources alone. */
export function generatedFiles(): Record<string, string> {
  return {
    ...crdFiles(),
    ...rbacFiles(),
    ...policyFiles(),
    'docs/acceptance.md': acceptanceDoc(findTestTitles(root)),
    'docs/reference/api.md': apiDoc(),
    'docs/reference/chart.md': chartDoc(),
    'docs/reference/cli.md': cliDoc(),
    'docs/reference/conformance.md': conformanceDoc(),
    'docs/reference/events.md': eventsDoc(),
    'docs/reference/failures.md': failuresDoc(),
    'docs/reference/metrics.md': metricsDoc(),
    'docs/reference/names.md': namesDoc(),
    'docs/reference/provider-contract.md': providerContractDoc(),
    'docs/reference/provider-contract.schema.json': providerContractSchema(),
    'docs/reference/provider-specs.md': providerSpecsDoc(),
    'docs/reference/temporal.md': temporalDoc(),
  };
}
