// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface LeaseRenewed {
  'sequence'?: (number | string | Long);
  'controlTimeMs'?: (number | string | Long);
  'databaseAway'?: (boolean);
  'reconnectSpreadMs'?: (number);
  'barredHosts'?: (string)[];
  'restoreMark'?: (string);
  'resendId'?: (string);
}

export interface LeaseRenewed__Output {
  'sequence': (string);
  'controlTimeMs': (string);
  'databaseAway': (boolean);
  'reconnectSpreadMs': (number);
  'barredHosts': (string)[];
  'restoreMark': (string);
  'resendId': (string);
}
