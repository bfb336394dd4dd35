// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface CommandResult {
  'commandId'?: (string);
  'nodeEpoch'?: (number | string | Long);
  'outcome'?: (string);
  'duplicate'?: (boolean);
  'errorCode'?: (string);
  'errorMessage'?: (string);
  'result'?: (string);
}

export interface CommandResult__Output {
  'commandId': (string);
  'nodeEpoch': (string);
  'outcome': (string);
  'duplicate': (boolean);
  'errorCode': (string);
  'errorMessage': (string);
  'result': (string);
}
