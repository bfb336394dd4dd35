// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Gpu {
  'uuid'?: (string);
  'index'?: (number);
  'type'?: (string);
  'name'?: (string);
  'memoryBytes'?: (number | string | Long);
  'healthy'?: (boolean);
  'unhealthyReason'?: (string);
}

export interface Gpu__Output {
  'uuid': (string);
  'index': (number);
  'type': (string);
  'name': (string);
  'memoryBytes': (string);
  'healthy': (boolean);
  'unhealthyReason': (string);
}
