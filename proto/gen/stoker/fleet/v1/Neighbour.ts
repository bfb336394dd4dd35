// Original file: proto/fleet/v1/fleet.proto


export interface Neighbour {
  'origin'?: (string);
  'ticket'?: (string);
  'hostId'?: (string);
}

export interface Neighbour__Output {
  'origin': (string);
  'ticket': (string);
  'hostId': (string);
}
