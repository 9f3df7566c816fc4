import { z } from 'zod';

/** Machine types of the simulated cloud with what a VM of each offers to pods, as Kubernetes quantities. */
export const machineTypes = {
  small: { cpu: '2', memory: '4Gi', pods: '110' },
  medium: { cpu: '4', memory: '16Gi', pods: '110' },
  large: { cpu: '16', memory: '64Gi', pods: '250' },
} as const;
export type MachineType = keyof typeof machineTypes;

/** Images of the simulated cloud. Only the cloud knows them, as those of a real one. */
export const images = ['debian-12', 'debian-13'] as const;

const machineTypeNames = Object.keys(machineTypes) as [MachineType, ...MachineType[]];

/** A taint that a VM's kubelet registers its Node with. */
export const NodeTaint = z.strictObject({
  key: z.string().min(1),
  value: z.string().optional(),
  effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute'], {
    error: 'use NoSchedule, PreferNoSchedule or NoExecute',
  }),
});

/** `providerSpec` of a MachineClass of the provider `simulated`. */
export const SimulatedProviderSpec = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/, error: 'give an http or https URL' })
    .describe('URL of the simulated cloud, as its process prints it.'),
  machineType: z
    .enum(machineTypeNames, { error: `use one of ${machineTypeNames.join(', ')}` })
    .describe('Size of the VMs.'),
  image: z.string().min(1, 'give the name of an image').optional().describe('Image of the VMs. Default: the newest.'),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,63}$/, 'use 1 to 63 lower case letters, digits and dashes')
    .default('local')
    .describe('Region of the VMs: part of their provider ID.'),
  tags: z
    .record(z.string().min(1), z.string())
    .refine((tags) => Object.keys(tags).length > 0, 'give at least one tag, by which the VMs are found again')
    .describe('Tags of every VM. VMs that carry all of them are listed as belonging to this installation.'),
  spot: z.boolean().default(false).describe('Whether the cloud may take the VMs away again.'),
  labels: z
    .record(z.string().min(1), z.string())
    .default({})
    .describe('Labels that the kubelet registers its Node with.'),
  taints: z.array(NodeTaint).default([]).describe('Taints that the kubelet registers its Node with.'),
});
export type SimulatedProviderSpec = z.infer<typeof SimulatedProviderSpec>;

/** A VM as the cloud's API shows it: only the fields that are read. */
export const CloudVm = z.object({
  id: z.string(),
  kind: z.literal('vm'),
  name: z.string(),
  region: z.string(),
  state: z.enum(['creating', 'running', 'deleting', 'terminated']),
  createdAt: z.iso.datetime(),
  tags: z.record(z.string(), z.string()),
  addresses: z.array(z.object({ type: z.string(), address: z.string() })),
});
export type CloudVm = z.infer<typeof CloudVm>;

/** What comes with a VM and goes with it, unless the cloud leaks it. */
export const partKinds = ['disk', 'nic', 'ip'] as const;
export type PartKind = (typeof partKinds)[number];

/** A disk, NIC or address as the cloud's API shows it: only the fields that are read. */
export const CloudPart = CloudVm.pick({ id: true, name: true, createdAt: true, tags: true }).extend({
  kind: z.enum(partKinds),
  vm: z.string().optional(),
});
export type CloudPart = z.infer<typeof CloudPart>;

/** Anything that the cloud lists. */
export type CloudResource = CloudVm | CloudPart;

/** A page of the cloud's list. */
export const CloudPage = z.object({
  items: z.array(z.discriminatedUnion('kind', [CloudVm, CloudPart])),
  nextPage: z.string().optional(),
});
export type CloudPage = z.infer<typeof CloudPage>;

/** Body of a create call. */
export interface CreateVmBody {
  readonly token: string;
  readonly name: string;
  readonly region: string;
  readonly machineType: MachineType;
  readonly image?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
  /** Tags of the disk, the NIC and the address. Default: none. */
  readonly partTags?: Readonly<Record<string, string>> | undefined;
  readonly userData: string;
  /** null: the VM registers no Node. */
  readonly node: Pick<SimulatedProviderSpec, 'labels' | 'taints'> | null;
}
