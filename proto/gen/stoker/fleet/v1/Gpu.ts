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
  'faultId'?: (string);
  'pciBusId'?: (string);
  'migProfile'?: (string);
  'parentUuid'?: (string);
  'computeCapability'?: (string);
  'powerLimitWatts'?: (number | string);
  'eccUncorrected'?: (number | string | Long);
}

export interface Gpu__Output {
  'uuid': (string);
  'index': (number);
  'type': (string);
  'name': (string);
  'memoryBytes': (string);
  'healthy': (boolean);
  'unhealthyReason': (string);
  'faultId': (string);
  'pciBusId': (string);
  'migProfile': (string);
  'parentUuid': (string);
  'computeCapability': (string);
  'powerLimitWatts': (number);
  'eccUncorrected': (string);
}
