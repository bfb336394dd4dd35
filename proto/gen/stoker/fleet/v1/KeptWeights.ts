// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface KeptWeights {
  'repo'?: (string);
  'revision'?: (string);
  'commit'?: (string);
  'bytes'?: (number | string | Long);
  'bytesTotal'?: (number | string | Long);
  'pinned'?: (boolean);
  'inUse'?: (boolean);
  'usedAtMs'?: (number | string | Long);
  'failCode'?: (string);
  'failMessage'?: (string);
  'id'?: (string);
}

export interface KeptWeights__Output {
  'repo': (string);
  'revision': (string);
  'commit': (string);
  'bytes': (string);
  'bytesTotal': (string);
  'pinned': (boolean);
  'inUse': (boolean);
  'usedAtMs': (string);
  'failCode': (string);
  'failMessage': (string);
  'id': (string);
}
