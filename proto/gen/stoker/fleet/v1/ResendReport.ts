// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface ResendReport {
  'resendId'?: (string);
  'records'?: (number | string | Long);
  'dropped'?: (number | string | Long);
  'droppedThroughMs'?: (number | string | Long);
  'done'?: (boolean);
}

export interface ResendReport__Output {
  'resendId': (string);
  'records': (string);
  'dropped': (string);
  'droppedThroughMs': (string);
  'done': (boolean);
}
