// Original file: proto/fleet/v1/fleet.proto


export interface Rental {
  'sshKeys'?: (string)[];
  'firstStart'?: (string);
}

export interface Rental__Output {
  'sshKeys': (string)[];
  'firstStart': (string);
}
