// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface NetworkInterface {
  'name'?: (string);
  'addresses'?: (string)[];
  'speedBitsPerSecond'?: (number | string | Long);
}

export interface NetworkInterface__Output {
  'name': (string);
  'addresses': (string)[];
  'speedBitsPerSecond': (string);
}
