// Original file: proto/fleet/v1/fleet.proto

import type { Weights as _stoker_fleet_v1_Weights, Weights__Output as _stoker_fleet_v1_Weights__Output } from '../../../stoker/fleet/v1/Weights.ts';
import type { AgentInstance as _stoker_fleet_v1_AgentInstance, AgentInstance__Output as _stoker_fleet_v1_AgentInstance__Output } from '../../../stoker/fleet/v1/AgentInstance.ts';
import type { Rental as _stoker_fleet_v1_Rental, Rental__Output as _stoker_fleet_v1_Rental__Output } from '../../../stoker/fleet/v1/Rental.ts';
import type { Adapter as _stoker_fleet_v1_Adapter, Adapter__Output as _stoker_fleet_v1_Adapter__Output } from '../../../stoker/fleet/v1/Adapter.ts';
import type { Long } from '@grpc/proto-loader';

export interface InstanceSpec {
  'instanceId'?: (string);
  'deployId'?: (string);
  'generation'?: (number | string | Long);
  'engine'?: (string);
  'servedModelName'?: (string);
  'task'?: (string);
  'weights'?: (_stoker_fleet_v1_Weights | null);
  'gpuUuids'?: (string)[];
  'maxBatchSize'?: (number);
  'contextLength'?: (number);
  'memoryBytes'?: (number | string | Long);
  'cpus'?: (number | string);
  'extraArgs'?: (string)[];
  'image'?: (string);
  'externalUrl'?: (string);
  'draining'?: (boolean);
  'chatTemplate'?: (string);
  'agentInstance'?: (_stoker_fleet_v1_AgentInstance | null);
  'rental'?: (_stoker_fleet_v1_Rental | null);
  'gpuMemoryBytes'?: (number | string | Long);
  'adapters'?: (_stoker_fleet_v1_Adapter)[];
  'gpuShare'?: (number | string);
  'sharesPrefixCache'?: (boolean);
  'externalApi'?: (string);
  'sleepAfterSeconds'?: (number);
  'awaitedAtMs'?: (number | string | Long);
  'owner'?: (string);
  'takesServerBatch'?: (boolean);
}

export interface InstanceSpec__Output {
  'instanceId': (string);
  'deployId': (string);
  'generation': (string);
  'engine': (string);
  'servedModelName': (string);
  'task': (string);
  'weights': (_stoker_fleet_v1_Weights__Output | null);
  'gpuUuids': (string)[];
  'maxBatchSize': (number);
  'contextLength': (number);
  'memoryBytes': (string);
  'cpus': (number);
  'extraArgs': (string)[];
  'image': (string);
  'externalUrl': (string);
  'draining': (boolean);
  'chatTemplate': (string);
  'agentInstance': (_stoker_fleet_v1_AgentInstance__Output | null);
  'rental': (_stoker_fleet_v1_Rental__Output | null);
  'gpuMemoryBytes': (string);
  'adapters': (_stoker_fleet_v1_Adapter__Output)[];
  'gpuShare': (number);
  'sharesPrefixCache': (boolean);
  'externalApi': (string);
  'sleepAfterSeconds': (number);
  'awaitedAtMs': (string);
  'owner': (string);
  'takesServerBatch': (boolean);
}
