// Original file: proto/fleet/v1/fleet.proto


export interface AdapterReport {
  'id'?: (string);
  'phase'?: (string);
  'failCode'?: (string);
  'failMessage'?: (string);
  'isFinal'?: (boolean);
  'commit'?: (string);
}

export interface AdapterReport__Output {
  'id': (string);
  'phase': (string);
  'failCode': (string);
  'failMessage': (string);
  'isFinal': (boolean);
  'commit': (string);
}
