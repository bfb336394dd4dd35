// Original file: proto/fleet/v1/fleet.proto


export interface Certificate {
  'certificate'?: (Buffer | Uint8Array | string);
  'ca'?: (Buffer | Uint8Array | string);
  'hostId'?: (string);
}

export interface Certificate__Output {
  'certificate': (Buffer);
  'ca': (Buffer);
  'hostId': (string);
}
