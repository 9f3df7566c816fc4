/** Failures whose message and stack trace are a payload: a codec sees nothing else of them. */
import { DefaultFailureConverter, type FailureConverter } from '@temporalio/common';
import { inWorkflowContext } from '@temporalio/workflow';
import { encodesFailuresMark } from '../api/names.ts';

type Failure = ReturnType<FailureConverter['errorToFailure']>;
type Given = Parameters<FailureConverter['errorToFailure']>;

/**
 * The SDK's own does so for the failures that it makes, and changes them. This one also covers what a failure was
 * caused by, where another program has written that, and may convert an error twice.
 */
class EncodingFailureConverter extends DefaultFailureConverter {
  override errorToFailure(...given: Given): Failure {
    return withEncodedAttributes(super.errorToFailure(...given), given);
  }
}

function withEncodedAttributes(failure: Failure, given: Given): Failure {
  const [, payloadConverter, context] = given;
  const { message, stackTrace, cause } = failure;
  const attributes = { message: message ?? '', stack_trace: stackTrace ?? '' };
  return {
    ...failure,
    message: 'Encoded failure', // as all SDKs have it
    stackTrace: '',
    encodedAttributes: failure.encodedAttributes ?? payloadConverter.toPayload(attributes, context),
    ...(cause && { cause: withEncodedAttributes(cause, given) }),
  };
}

const encodes = !inWorkflowContext() || encodesFailuresMark in globalThis;

/** undefined in a workflow of a worker without keys: the SDK takes its own. */
export const failureConverter: FailureConverter | undefined = encodes ? new EncodingFailureConverter() : undefined;
