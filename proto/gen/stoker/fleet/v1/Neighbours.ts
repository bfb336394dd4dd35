// Original file: proto/fleet/v1/fleet.proto

import type { Neighbour as _stoker_fleet_v1_Neighbour, Neighbour__Output as _stoker_fleet_v1_Neighbour__Output } from '../../../stoker/fleet/v1/Neighbour.ts';

export interface Neighbours {
  'question'?: (string);
  'neighbours'?: (_stoker_fleet_v1_Neighbour)[];
}

export interface Neighbours__Output {
  'question': (string);
  'neighbours': (_stoker_fleet_v1_Neighbour__Output)[];
}
