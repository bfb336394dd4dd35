// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Renew {
  'nodeEpoch'?: (number | string | Long);
  'sequence'?: (number | string | Long);
}

export interface Renew__Output {
  'nodeEpoch': (string);
  'sequence': (string);
}
