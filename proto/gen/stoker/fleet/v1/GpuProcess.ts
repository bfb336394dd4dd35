// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface GpuProcess {
  'pid'?: (number);
  'name'?: (string);
  'memoryBytes'?: (number | string | Long);
  'instanceId'?: (string);
}

export interface GpuProcess__Output {
  'pid': (number);
  'name': (string);
  'memoryBytes': (string);
  'instanceId': (string);
}
