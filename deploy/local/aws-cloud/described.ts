/** What is read of moto's answers. All else in them is passed on. */
import { z } from 'zod';
import { type Content, list } from './wire.ts';

const DescribedInstance = elements({
  instanceId: z.string(),
  instanceType: z.string(),
  instanceState: z.object({ code: z.string(), name: z.string() }),
  placement: elements({ availabilityZone: z.string() }),
  clientToken: z.string().default(''),
  privateDnsName: z.string(),
  privateIpAddress: z.string().optional(),
  networkInterfaceSet: list(elements({ networkInterfaceId: z.string() })),
});
export type DescribedInstance = z.output<typeof DescribedInstance>;

export const Reservation = elements({ instancesSet: list(DescribedInstance) });
export type DescribedReservation = z.output<typeof Reservation>;

export const Reservations = z.object({ reservationSet: list(Reservation) });

const Attachment = elements({ instanceId: z.string().optional() });

export const Volumes = z.object({
  volumeSet: list(elements({ volumeId: z.string(), attachmentSet: list(Attachment) })),
});

const DescribedInterface = elements({
  networkInterfaceId: z.string(),
  attachment: Attachment.or(z.literal('')).optional(),
});
export type DescribedInterface = z.output<typeof DescribedInterface>;

export const NetworkInterfaces = z.object({ networkInterfaceSet: list(DescribedInterface) });

export const Subnets = z.object({ subnetSet: list(z.object({ availabilityZone: z.string() })) });

function elements<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.object(shape).catchall(z.custom<Content | undefined>());
}
