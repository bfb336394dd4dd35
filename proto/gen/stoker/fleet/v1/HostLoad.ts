// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface HostLoad {
  'cpuRatio'?: (number | string);
  'memoryUsedBytes'?: (number | string | Long);
  'memoryTotalBytes'?: (number | string | Long);
  'diskFreeBytes'?: (number | string | Long);
  'diskTotalBytes'?: (number | string | Long);
}

export interface HostLoad__Output {
  'cpuRatio': (number);
  'memoryUsedBytes': (string);
  'memoryTotalBytes': (string);
  'diskFreeBytes': (string);
  'diskTotalBytes': (string);
}
