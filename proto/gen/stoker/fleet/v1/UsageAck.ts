// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface UsageAck {
  'spoolIds'?: (number | string | Long)[];
}

export interface UsageAck__Output {
  'spoolIds': (string)[];
}
