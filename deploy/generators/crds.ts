/** deploy/crds, from the schemas of the API. */
import { stringify } from 'yaml';
import { type KindDefinition, toCrd } from '../../api/crds.ts';
import { machineDefinition } from '../../api/gardener/schema/machine.ts';
import { machineClassDefinition } from '../../api/gardener/schema/machine-class.ts';
import { machineDeploymentDefinition } from '../../api/gardener/schema/machine-deployment.ts';
import { machineSetDefinition } from '../../api/gardener/schema/machine-set.ts';

/** Every kind whose CRD comes from here. */
export const kinds: readonly KindDefinition[] = [
  machineClassDefinition,
  machineDefinition,
  machineSetDefinition,
  machineDeploymentDefinition,
];

/** Files of deploy/crds by their path in the repository, one for each kind. The chart has them, too: it reads no others. */
export function crdFiles(): Record<string, string> {
  return Object.fromEntries(
    kinds.flatMap((kind) => {
      const crd = toCrd(kind);
      const { group, plural } = kind.resource;
      const yaml = stringify(crd, { aliasDuplicateObjects: false, lineWidth: 120 });
      const text = `# Made from api/ by \`npm run generate\`. Do not edit.\n${yaml}`;
      return ['deploy/crds', 'deploy/chart/definitions'].map((folder) => [`${folder}/${group}_${plural}.yaml`, text]);
    }),
  );
}
