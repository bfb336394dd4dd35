// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface UsageRecord {
  'spoolId'?: (number | string | Long);
  'requestId'?: (string);
  'attempt'?: (number);
  'admittedAtMs'?: (number | string | Long);
  'endedAtMs'?: (number | string | Long);
  'instanceId'?: (string);
  'deployId'?: (string);
  'nodeEpoch'?: (number | string | Long);
  'accountId'?: (string);
  'keyId'?: (string);
  'replicaId'?: (string);
  'model'?: (string);
  'leaseIds'?: (string)[];
  'holdNanoUsd'?: (string);
  'inputTokens'?: (number | string | Long);
  'cachedInputTokens'?: (number | string | Long);
  'outputTokens'?: (number | string | Long);
  'reasoningTokens'?: (number | string | Long);
  'source'?: (string);
  'endReason'?: (string);
  'priceVersion'?: (number | string | Long);
  'inputRate'?: (string);
  'cachedInputRate'?: (string);
  'outputRate'?: (string);
  'queueMs'?: (number);
  'firstByteMs'?: (number);
  'totalMs'?: (number);
  'readyMs'?: (number);
  'discountId'?: (string);
  'characters'?: (number | string | Long);
  'audioMs'?: (number | string | Long);
  'images'?: (number | string | Long);
  'imagePixelSteps'?: (number | string | Long);
  'items'?: (number | string | Long);
  'characterRate'?: (string);
  'audioRate'?: (string);
  'imageRate'?: (string);
  'imageUnit'?: (number | string | Long);
}

export interface UsageRecord__Output {
  'spoolId': (string);
  'requestId': (string);
  'attempt': (number);
  'admittedAtMs': (string);
  'endedAtMs': (string);
  'instanceId': (string);
  'deployId': (string);
  'nodeEpoch': (string);
  'accountId': (string);
  'keyId': (string);
  'replicaId': (string);
  'model': (string);
  'leaseIds': (string)[];
  'holdNanoUsd': (string);
  'inputTokens': (string);
  'cachedInputTokens': (string);
  'outputTokens': (string);
  'reasoningTokens': (string);
  'source': (string);
  'endReason': (string);
  'priceVersion': (string);
  'inputRate': (string);
  'cachedInputRate': (string);
  'outputRate': (string);
  'queueMs': (number);
  'firstByteMs': (number);
  'totalMs': (number);
  'readyMs': (number);
  'discountId': (string);
  'characters': (string);
  'audioMs': (string);
  'images': (string);
  'imagePixelSteps': (string);
  'items': (string);
  'characterRate': (string);
  'audioRate': (string);
  'imageRate': (string);
  'imageUnit': (string);
}
