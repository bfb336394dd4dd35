// Original file: proto/fleet/v1/fleet.proto


export interface EnrollRequest {
  'joinToken'?: (string);
  'csr'?: (Buffer | Uint8Array | string);
  'hostId'?: (string);
  'hostname'?: (string);
}

export interface EnrollRequest__Output {
  'joinToken': (string);
  'csr': (Buffer);
  'hostId': (string);
  'hostname': (string);
}
