// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Command {
  'commandId'?: (string);
  'nodeEpoch'?: (number | string | Long);
  'generation'?: (number | string | Long);
  'deadlineMs'?: (number | string | Long);
  'instanceId'?: (string);
  'kind'?: (string);
  'arguments'?: (string);
}

export interface Command__Output {
  'commandId': (string);
  'nodeEpoch': (string);
  'generation': (string);
  'deadlineMs': (string);
  'instanceId': (string);
  'kind': (string);
  'arguments': (string);
}
