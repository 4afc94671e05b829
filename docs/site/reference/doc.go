// Package reference writes the pages of docs/reference that follow from the
// code: the admin API from its OpenAPI document, events, states and causes from
// the declarations. Its test compares them with the pages that are committed;
// UPDATE=1 writes them.
package reference
