// Original file: proto/fleet/v1/fleet.proto

import type { InstanceSpec as _stoker_fleet_v1_InstanceSpec, InstanceSpec__Output as _stoker_fleet_v1_InstanceSpec__Output } from '../../../stoker/fleet/v1/InstanceSpec.ts';
import type { Prefetch as _stoker_fleet_v1_Prefetch, Prefetch__Output as _stoker_fleet_v1_Prefetch__Output } from '../../../stoker/fleet/v1/Prefetch.ts';
import type { Long } from '@grpc/proto-loader';

export interface DesiredState {
  'nodeEpoch'?: (number | string | Long);
  'generation'?: (number | string | Long);
  'instances'?: (_stoker_fleet_v1_InstanceSpec)[];
  'tombstones'?: (string)[];
  'prefetch'?: (_stoker_fleet_v1_Prefetch)[];
  'emptiedByMs'?: (number | string | Long);
  'moved'?: (string)[];
}

export interface DesiredState__Output {
  'nodeEpoch': (string);
  'generation': (string);
  'instances': (_stoker_fleet_v1_InstanceSpec__Output)[];
  'tombstones': (string)[];
  'prefetch': (_stoker_fleet_v1_Prefetch__Output)[];
  'emptiedByMs': (string);
  'moved': (string)[];
}
