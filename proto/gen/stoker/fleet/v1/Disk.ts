// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Disk {
  'mount'?: (string);
  'type'?: (string);
  'totalBytes'?: (number | string | Long);
  'freeBytes'?: (number | string | Long);
}

export interface Disk__Output {
  'mount': (string);
  'type': (string);
  'totalBytes': (string);
  'freeBytes': (string);
}
