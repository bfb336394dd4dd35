// Original file: proto/fleet/v1/fleet.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { AgentMessage as _stoker_fleet_v1_AgentMessage, AgentMessage__Output as _stoker_fleet_v1_AgentMessage__Output } from '../../../stoker/fleet/v1/AgentMessage.ts';
import type { ControlMessage as _stoker_fleet_v1_ControlMessage, ControlMessage__Output as _stoker_fleet_v1_ControlMessage__Output } from '../../../stoker/fleet/v1/ControlMessage.ts';

export interface FleetClient extends grpc.Client {
  Session(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  Session(options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  session(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  session(options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  
}

export interface FleetHandlers extends grpc.UntypedServiceImplementation {
  Session: grpc.handleBidiStreamingCall<_stoker_fleet_v1_AgentMessage__Output, _stoker_fleet_v1_ControlMessage>;
  
}

export interface FleetDefinition extends grpc.ServiceDefinition {
  Session: MethodDefinition<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage, _stoker_fleet_v1_AgentMessage__Output, _stoker_fleet_v1_ControlMessage__Output>
}
