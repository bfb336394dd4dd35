// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Welcome {
  'nodeEpoch'?: (number | string | Long);
  'leaseTtlMs'?: (number);
  'renewEveryMs'?: (number);
  'reportEveryMs'?: (number);
  'ticketKey'?: (Buffer | Uint8Array | string);
  'controlTimeMs'?: (number | string | Long);
  'behind'?: (boolean);
  'reconnectSpreadMs'?: (number);
  'barredHosts'?: (string)[];
  'clockToleranceMs'?: (number);
  'restoreMark'?: (string);
  'resendId'?: (string);
}

export interface Welcome__Output {
  'nodeEpoch': (string);
  'leaseTtlMs': (number);
  'renewEveryMs': (number);
  'reportEveryMs': (number);
  'ticketKey': (Buffer);
  'controlTimeMs': (string);
  'behind': (boolean);
  'reconnectSpreadMs': (number);
  'barredHosts': (string)[];
  'clockToleranceMs': (number);
  'restoreMark': (string);
  'resendId': (string);
}
