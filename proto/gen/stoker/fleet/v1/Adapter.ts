// Original file: proto/fleet/v1/fleet.proto

import type { Weights as _stoker_fleet_v1_Weights, Weights__Output as _stoker_fleet_v1_Weights__Output } from '../../../stoker/fleet/v1/Weights.ts';

export interface Adapter {
  'id'?: (string);
  'weights'?: (_stoker_fleet_v1_Weights | null);
}

export interface Adapter__Output {
  'id': (string);
  'weights': (_stoker_fleet_v1_Weights__Output | null);
}
