import type { FailureCode } from '../../api/failures.ts';
import type {
  ClassVerdict,
  DeleteVmRequest,
  EnsureVmRequest,
  InterruptionPage,
  ListInterruptionsRequest,
  ListVmsRequest,
  SecretRef,
  UpdateVmRequest,
  ValidateClassRequest,
  Vm,
  VmDeletion,
  VmPage,
  VolumeIds,
  VolumeIdsRequest,
} from '../../api/provider.ts';

/** What a provider knows of the call that it serves. */
export interface CallContext {
  /** Number of this attempt, from 1. Above 1 an earlier attempt may have had its effect. */
  readonly attempt: number;
  /** Aborts when the caller gives up; every request to a cloud takes it. */
  readonly signal: AbortSignal;
  /** Says how far the call is. Costs nothing: the boundary sends the latest value when a heartbeat is due. */
  heartbeat(details: unknown): void;
}

/**
 * What a TypeScript provider implements; api/provider.ts says what each function promises. Requests have passed their
 * schema. Every function may be repeated after a crash at any line, and throws only `ProviderError` or what the signal
 * aborts with.
 */
export interface Provider {
  /** Keys of Secrets whose values are no secret. Those of all others are hidden in its errors and texts. */
  readonly plainKeys?: readonly string[];
  ensureVm(request: EnsureVmRequest, context: CallContext): Promise<Vm>;
  deleteVm(request: DeleteVmRequest, context: CallContext): Promise<VmDeletion>;
  listVms(request: ListVmsRequest, context: CallContext): Promise<VmPage>;
  validateClass(request: ValidateClassRequest, context: CallContext): Promise<ClassVerdict>;
  volumeIds(request: VolumeIdsRequest, context: CallContext): Promise<VolumeIds>;
  updateVm?(request: UpdateVmRequest, context: CallContext): Promise<void>;
  listInterruptions?(request: ListInterruptionsRequest, context: CallContext): Promise<InterruptionPage>;
}

/** Decoded keys of a Secret. */
export type SecretData = Readonly<Record<string, Buffer | string>>;

/** What every provider is made with. */
export interface ProviderDeps {
  /** Reads a Secret of the control cluster; undefined when there is none. */
  readSecret(ref: SecretRef, signal: AbortSignal): Promise<SecretData | undefined>;
  /** Where the Secrets of a class have no credentials, use those that the SDK of the cloud finds for this process. */
  readonly defaultCredentials?: boolean;
  /** Secrets may name token files below this folder alone. Default: `standardTokenFolder`. */
  readonly tokenFolder?: string;
  /** Called with each rate at which requests are sent to a cloud, for metrics. */
  onRequestRate?(labels: RateLabels, rate: RequestRate): void;
  /** Called after each request to a cloud, for metrics. */
  onRequest?(request: CloudRequest): void;
}

/** A request to a cloud that was answered, refused or lost. */
export interface CloudRequest extends Pick<RateLabels, 'provider' | 'endpoint'> {
  readonly seconds: number;
  readonly hasFailed: boolean;
}

/** How fast requests are sent to a cloud. */
export interface RequestRate {
  readonly state: RateState;
}

/** A rate at a moment. */
export interface RateState {
  readonly perSecond: number;
  /** Requests that wait for their turns. */
  readonly waiting: number;
  /** Requests that the cloud has throttled so far. */
  readonly throttled: number;
}

/** Whose requests a rate is for. Machines with the same credentials share one. */
export interface RateLabels {
  readonly provider: string;
  readonly endpoint: string;
  /** `<namespace>/<name>` of the Secrets with the credentials. */
  readonly credentials: string;
}

interface ProviderErrorOptions {
  /** The cloud's own error code. */
  readonly cloudCode?: string | undefined;
  /** The cloud's id of the request, for its support. */
  readonly requestId?: string | undefined;
  /** How long the cloud asks to wait before the next try. */
  readonly retryAfterMs?: number | undefined;
  /** Of `ensureVm`: no request of this call can have made anything, whatever the code says. */
  readonly nothingMade?: boolean;
  readonly cause?: unknown;
}

/** A refusal or breakdown of a cloud. The message is for people and reaches histories, so it holds no secret. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  readonly code: FailureCode;
  readonly cloudCode: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly nothingMade: boolean;

  constructor(code: FailureCode, message: string, options: ProviderErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.cloudCode = options.cloudCode;
    this.requestId = options.requestId;
    this.retryAfterMs = options.retryAfterMs;
    this.nothingMade = options.nothingMade ?? false;
  }
}
