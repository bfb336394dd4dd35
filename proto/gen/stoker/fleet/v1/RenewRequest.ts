// Original file: proto/fleet/v1/fleet.proto


export interface RenewRequest {
  'csr'?: (Buffer | Uint8Array | string);
}

export interface RenewRequest__Output {
  'csr': (Buffer);
}
