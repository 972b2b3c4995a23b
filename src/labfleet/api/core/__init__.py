"""What routes are made of: endpoints, problem documents, the OpenAPI document."""
